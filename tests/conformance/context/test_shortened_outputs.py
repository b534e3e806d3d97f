"""A tool output that is cleared in part: its head and tail stay, and it says what is missing."""

import json
from dataclasses import replace
from typing import Any

import pytest

from roocontext import NewMessage, Plan
from roocontext.errors import BudgetExceeded, InvalidPlan
from roocontext.log.counting import BYTES
from roocontext.log.entries import Kept
from roocontext.log.forms import forms
from roocontext.log.plan import CLEARED, SHORTENED
from roocontext.policies.builtin import policy_for
from roocontext.policies.tool_outputs import LEAST
from support.async_manager import Scripted, manager
from support.dialogue import call, result
from support.four_formats import FORMATS, asking
from support.provider_rules.anthropic import violations

LONG = "".join(f"line {number:04};" for number in range(300))
LAWFUL = ("default", "hybrid", "sliding_window", "gemini", "opencode")


def worked(chat: Any, *outputs: str, begin: str = "go") -> list[int]:
    """A user message, calls of a tool in one reply, and a result in a message each; their seqs."""
    first = chat.append("user", begin).seq
    answers = {f"t{first}.{number}": output for number, output in enumerate(outputs)}
    chat.append("assistant", [*map(call, answers)])
    return [chat.append("user", [result(*answer)]).seq for answer in answers.items()]


def output_of(chat: Any, seq: int, **options: Any) -> str:
    """The output that a message of the view holds."""
    (found,) = [m for m in chat.view(**options).messages if m.seq == seq]
    return str(found.content[0]["content"])


def shortened(text: str, head: int, tail: int, seq: int, phrase: str) -> str:
    """The text as the view shows it."""
    missing = f"[{len(text) - head - tail:,} of {len(text):,} characters: entry {seq} has all]"
    return f"{text[:head]}\n{phrase} {missing}\n{text[len(text) - tail :]}"


@pytest.mark.values_on_one_leg
@pytest.mark.parametrize("stored", FORMATS)
def test_head_and_the_tail_are_sent_in_every_format(chat, stored):
    chat.append("user", "go")
    chat.append(*asking(stored, ("a", "ls")), format=stored)
    (call,) = chat.pending()
    seq = chat.answer(call, LONG).seq
    chat.commit(Plan.clear(chat.view(), [(seq, 0)], "[cut]", keep=(30, 20)))
    sent = str(chat.messages("anthropic"))
    assert LONG[:30] in sent
    assert LONG[-20:] in sent
    assert f"[cut] [{len(LONG) - 50:,} of {len(LONG):,} characters: entry {seq} has all]" in sent
    assert LONG[30:60] not in sent
    assert chat.messages("anthropic") == chat.messages("anthropic", as_of=chat.head_seq())
    (message,) = [m for m in chat.view(last=1).messages if m.seq == seq]
    assert (message.cleared, message.shortened[0].size) == ((0,), len(LONG))
    assert chat.internals.originals(seq, seq)[0].content == chat.message(seq).content


def test_newest_clearing_counts_and_uncovering_it_brings_the_earlier_back(lab):
    chat = lab.store.create()
    (seq,) = worked(chat, LONG)
    before = chat.head_seq()
    part = chat.commit(Plan.clear(chat.view(), [(seq, 0)], "[cut]", keep=(300, 200))).seq
    chat.append("assistant", "so")
    less = chat.commit(Plan.clear(chat.view(), [(seq, 0)], "[cut]", keep=(30, 0))).seq
    whole = chat.commit(Plan.clear(chat.view(), [(seq, 0)])).seq
    shows = {
        before: LONG,
        part: shortened(LONG, 300, 200, seq, "[cut]"),
        less: shortened(LONG, 30, 0, seq, "[cut]").removesuffix("\n"),
        whole: CLEARED,
    }
    assert {at: output_of(chat, seq, as_of=at) for at in shows} == shows
    assert output_of(chat, seq) == CLEARED
    assert chat.diff(part, whole).cleared == ((seq, 0),)
    assert chat.diff(whole, less).restored == ((seq, 0),)
    fork = chat.fork(less)
    assert output_of(fork, seq) == shows[less]
    done = chat.uncover(whole)
    assert (done.restored, output_of(chat, seq)) == (1, shows[less])
    chat.rewind(part)
    assert output_of(chat, seq) == shows[part]
    chat.undo()
    assert output_of(chat, seq) == shows[less]
    chat.uncover(less)
    assert output_of(chat, seq) == shows[part]
    rows = lab.sql(f"SELECT cleared_by, head, tail FROM clearings WHERE session_id = '{chat.id}'")
    assert [tuple(row) for row in rows] == [(part, 300, 200)]
    assert chat.verify().ok
    lab.sql("UPDATE clearings SET head = 7 WHERE head IS NOT NULL")
    assert not chat.verify().ok
    chat.rebuild()
    assert output_of(chat, seq) == shows[part]
    assert chat.verify().ok


def test_redaction_empties_the_kept_parts_of_an_output(chat):
    (seq,) = worked(chat, LONG)
    at = chat.commit(Plan.clear(chat.view(), [(seq, 0)], "[cut]", keep=(300, 200))).seq
    chat.redact(seq)
    for options in ({}, {"as_of": at}):
        assert output_of(chat, seq, **options) == "[redacted]"
    assert chat.verify().ok


def test_search_of_the_view_finds_the_kept_parts(chat, store):
    text = f"zebra {LONG} walrus {LONG} giraffe"
    (seq,) = worked(chat, text)
    chat.commit(Plan.clear(chat.view(), [(seq, 0)], keep=(20, 20)))

    def found(word: str, among: str) -> list[int]:
        hits = store.search(word, session=chat.id, among=among)
        return [hit.seq for hit in hits]

    assert found("walrus", "all") == [seq]
    assert found("zebra", "visible") == found("giraffe", "visible") == [seq]
    assert found("walrus", "visible") == []


def test_wrong_kept_sizes_are_refused(chat):
    (seq,) = worked(chat, LONG)
    view = chat.view()

    def refused(plan: Plan) -> str:
        head = chat.head()
        with pytest.raises(InvalidPlan) as caught:
            chat.commit(plan)
        assert chat.head() == head
        return str(caught.value)

    block = [(seq, 0)]
    everything = Plan.clear(view, block, keep=(len(LONG), 0), compat=True)
    assert f"has {len(LONG)} characters: all" in refused(everything)
    part = Plan.clear(view, block, keep=(1, 1), compat=True)
    for keeps in ((Kept(seq, 1, 0, 0),), (Kept(seq, 0, 1, 1),) * 2):
        assert "does not clear, or twice" in refused(replace(part, keeps=keeps))
    for keep in ((seq, 0, 1, 1), Kept(seq, 0, -1, 1), Kept(seq, 0, 1.5, 1)):
        refused(replace(part, keeps=(keep,)))
    chat.commit(Plan.clear(view, block, keep=(100, 100)))
    for keep in ((100, 100), (0, 200), (500, 0)):
        plan = Plan.clear(chat.view(), block, keep=keep, compat=True)
        assert "cleared already except for 200 characters" in refused(plan)
    chat.commit(Plan.clear(chat.view(), block))
    for keep in ((0, 0), None):
        assert "cleared already." in refused(Plan.clear(chat.view(), block, keep=keep, compat=True))


def managed(chat: Any, policy: str, limit: int, **options: Any) -> Any:
    """One run with a counter that anybody can check."""
    options |= {"limit": limit, "output": limit // 20, "counter": BYTES}
    options |= {"policy": policy_for(policy), "summariser": Scripted()}
    return manager(chat, **options).manage(chat)


@pytest.mark.values_on_one_leg
@pytest.mark.parametrize("policy", LAWFUL)
@pytest.mark.parametrize("following", [[], ["and hurry"], ["and hurry", "please"]])
def test_fresh_output_is_never_cleared_whole(chat, policy, following):
    chat.append_many([NewMessage(("user", "assistant")[n % 2], "word " * 40) for n in range(10)])
    large = LONG * 20
    (seq,) = worked(chat, large)
    chat.append_many([NewMessage("user", words) for words in following])
    outcome = managed(chat, policy, 20_000)
    assert outcome.tokens_after == chat.tokens(BYTES) <= 20_000
    shown = output_of(chat, seq)
    assert shown.startswith(large[:LEAST])
    assert shown.endswith(large[-LEAST:])
    assert f"of {len(large):,} characters: entry {seq} has all" in shown
    assert not violations(chat.messages())


@pytest.mark.values_on_one_leg
@pytest.mark.parametrize("policy", LAWFUL)
def test_each_of_several_fresh_outputs_keeps_a_head_and_a_tail(chat, policy):
    outputs = [LONG * 3, LONG * 20, "short", LONG * 9, LONG]
    rows = worked(chat, *outputs)
    outcome = managed(chat, policy, 20_000)
    assert outcome.tokens_after == chat.tokens(BYTES) <= 20_000
    shown = [output_of(chat, seq) for seq in rows]
    for text, whole in zip(shown, outputs, strict=True):
        assert text.startswith(whole[:LEAST])
        assert text.endswith(whole[-LEAST:])
    assert shown[2] == "short"
    longest = [len(text) for text, whole in zip(shown, outputs, strict=True) if text != whole]
    assert max(longest) - min(longest) < 10
    # One more arrives before the model answers: what was shortened is shortened again.
    more = worked(chat, LONG * 20)
    outcome = managed(chat, policy, 20_000)
    assert outcome.tokens_after == chat.tokens(BYTES) <= 20_000
    assert output_of(chat, more[0]).startswith(LONG[:LEAST])
    assert chat.verify().ok


def test_shortened_output_is_cleared_whole_after_the_reply(chat):
    (seq,) = worked(chat, LONG * 20)
    managed(chat, "default", 20_000)
    assert SHORTENED in output_of(chat, seq)
    chat.append("assistant", "word " * 1_000)
    chat.append("user", "word " * 1_000)
    managed(chat, "default", 20_000)
    assert output_of(chat, seq) == CLEARED
    assert chat.verify().ok


def test_request_that_no_head_and_tail_would_fit_is_refused_with_numbers(chat):
    worked(chat, *[LONG] * 40)
    with pytest.raises(BudgetExceeded) as caught:
        managed(chat, "default", 8_000)
    assert caught.value.needed > 8_000


def test_history_is_kept_if_a_fresh_output_is_what_does_not_fit(chat):
    said = [
        one.seq
        for one in chat.append_many(
            [NewMessage(("user", "assistant")[n % 2], "word " * 100) for n in range(12)]
        )
    ]
    (seq,) = worked(chat, LONG * 50)
    outcome = managed(chat, "default", 20_000)
    assert (outcome.hidden, outcome.cleared) == (0, 1)
    seen = [message.seq for message in chat.view().messages]
    assert seen[: len(said)] == said
    assert len(output_of(chat, seq)) > 2_000


def test_result_that_came_while_the_reply_was_made_is_fresh(chat):
    (seq,) = worked(chat, LONG * 20)
    chat.append("assistant", "word " * 20, asked_at=seq - 1)
    chat.append("user", "next")
    managed(chat, "default", 20_000)
    assert output_of(chat, seq).startswith(LONG[:LEAST])


OUTPUTS = (
    [{"type": "file", "name": "parser.py"}, {"type": "dir", "name": "parser.py.d"}],
    [{"type": "message", "name": "parser.py"}],
    [{"type": "function_call", "name": "parser.py"}],
    [{"type": "text", "line": "parser.py"}],
    {"type": "tool_use", "name": "parser.py"},
    [{"type": "text", "text": "parser.py"}],
    [{"type": "text", "text": "ok"}, {"type": "file", "name": "parser.py"}],
)


@pytest.mark.one_leg
@pytest.mark.parametrize("stored", FORMATS)
def test_output_that_is_a_list_of_typed_objects_reaches_the_model(chat, stored):
    for output in OUTPUTS:
        chat.append(*asking(stored, ("a", "ls")), format=stored)
        (call,) = chat.pending()
        chat.answer(call, output)
        for form in forms.known():
            assert "parser.py" in json.dumps(chat.messages(form)[-1]), (form, output)
            assert not [it for it in chat.repairs(form) if it.rule == "output"]
