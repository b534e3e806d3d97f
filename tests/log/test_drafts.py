"""The reserved part of a recorded reply's extra data."""

import pytest

from roocontext.errors import InvalidMessage
from roocontext.log.draft import KEPT_UNDER, Sources, message_draft
from roocontext.log.encoding import decode
from roocontext.log.entries import NewMessage


def stored(extra, kept):
    message = NewMessage("assistant", "x", extra=extra)
    return message_draft(message, Sources(1, lambda: bytes(16), str), kept=kept).extra


@pytest.mark.parametrize("extra", [None, {}, {"commit": "abc"}])
def test_facts_of_a_reply_are_under_the_reserved_name(extra):
    kept = {"stop_reason": "end_turn"}
    assert decode(stored(extra, kept)) == {**(extra or {}), KEPT_UNDER: kept}


def test_reply_without_facts_stores_nothing():
    assert stored(None, None) is None


@pytest.mark.parametrize("extra", [5, [], "text", {KEPT_UNDER: 1}])
def test_extra_with_the_reserved_name_is_refused(extra):
    with pytest.raises(InvalidMessage):
        stored(extra, {"stop_reason": "end_turn"})
