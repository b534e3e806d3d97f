"""Damage to references and spans that the sampled damages of `test_damage` may not meet."""

import pytest

from roocontext.errors import HistoryCorrupt
from roocontext.log.counting import BYTES
from support.damage import build


@pytest.mark.parametrize("half", ["answers_seq = 0", "answers_seq = 3", "answers_block = 0"])
def test_half_of_a_reference_to_a_call_is_none(lab, half):
    chat = build(lab.store)
    lab.drop_guards()
    (seq,) = lab.sql("SELECT max(seq) FROM entries WHERE kind = 'message' AND role = 'user'")[0]
    lab.sql(f"UPDATE entries SET {half} WHERE seq = {seq}")
    assert chat.message(seq).answers is None
    assert chat.messages()
    assert seq in {entry.seq for entry in chat.audit() if entry.entry.answers is None}
    assert chat.verify().seq == seq


@pytest.mark.parametrize("end", [-1, -(1 << 62)])
def test_span_that_ends_before_the_log_is_a_typed_error(lab, end):
    chat = build(lab.store)
    lab.drop_guards()
    lab.sql(f"UPDATE spans SET hi = {end} WHERE lo = (SELECT max(lo) FROM spans)")
    with pytest.raises(HistoryCorrupt):
        chat.tokens(BYTES)
    chat.rebuild()
    assert chat.tokens(BYTES)
