"""Extracts of what a sealed compaction hides, which the next `manage` writes as notes."""

from typing import Any

import pytest

from roocontext.context import Status
from roocontext.reports.why import why
from support.async_driver import plain_session
from support.async_manager import Scripted, manager
from support.dialogue import fill, shown
from support.replies import CLAUDE, GPT, claude, gpt, output_text, readable, sealed

pytestmark = pytest.mark.every_leg

SECRET = "The password of the build server is swordfish."
RULE = "Never change the file src/lexer.py without a test."


def compacted(chat: Any, number: int = 1) -> Any:
    """Let the provider compact everything so far."""
    reply = gpt(sealed(number, "sealed" * 50), output_text("Done.", number), number=number)
    done = chat.record(reply, chat.request("openai-responses", model=GPT))
    assert done.covering
    return done


def managed(chat: Any, model: str = GPT, **options: Any) -> Any:
    return manager(chat, model, limit=100_000, summariser=Scripted(), **options)


def extracts(chat: Any) -> dict[int, str]:
    return {note.target: note.content["text"] for note in chat.notes("extract")}


@pytest.fixture
def spoken(chat: Any) -> Any:
    """A session with a rule and a secret, which ends with a question."""
    chat.append("user", RULE)
    chat.append("assistant", "I will not.", model=GPT)
    chat.append("user", SECRET)
    fill(chat, 5)
    return chat


class TestManage:
    def test_extract_is_a_note_that_changes_no_view(self, spoken):
        done = compacted(spoken)
        context = managed(spoken)
        before, head = shown(spoken), spoken.head_seq()
        assert context.will_manage(spoken)
        outcome = context.manage(spoken)
        assert (outcome.status, outcome.changed, outcome.calls) == (Status.NOOP, False, 0)
        (text,) = extracts(spoken).values()
        assert [*extracts(spoken)] == [done.seq]
        assert RULE in text
        assert (shown(spoken), spoken.head_seq()) == (before, head)
        assert not context.settings.summariser.requests
        assert spoken.verify().ok

    def test_extract_is_written_once(self, spoken):
        compacted(spoken)
        context = managed(spoken)
        context.manage(spoken)
        last = spoken.head()
        assert not context.will_manage(spoken)
        context.manage(spoken)
        managed(spoken, "").manage(spoken)
        assert spoken.head() == last

    def test_manager_without_a_model_writes_it_too(self, spoken):
        done = compacted(spoken)
        managed(spoken, "").manage(spoken)
        assert [*extracts(spoken)] == [done.seq]

    def test_only_manage_writes_it(self, spoken):
        compacted(spoken)
        context = managed(spoken)
        context.preview(spoken)
        for run in (context.condense, context.truncate, context.prune):
            run(spoken)
        assert extracts(spoken) == {}

    def test_later_one_has_the_extract_of_an_earlier_one(self, spoken):
        first = compacted(spoken, 1)
        spoken.append("user", "Always use tabs.")
        second = compacted(spoken, 2)
        assert shown(spoken) == [second.seq]
        managed(spoken).manage(spoken)
        found = extracts(spoken)
        assert [*found] == [first.seq, second.seq]
        assert RULE in found[first.seq]
        assert RULE in found[second.seq]
        assert "Always use tabs." in found[second.seq]
        assert "Always use tabs." not in found[first.seq]

    def test_readable_compaction_has_none(self, spoken):
        reply = claude(readable("All so far."), stop_reason="compaction")
        assert spoken.record(reply).covering
        context = managed(spoken)
        assert not context.will_manage(spoken)
        context.manage(spoken)
        assert extracts(spoken) == {}

    def test_compaction_that_is_uncovered_has_none(self, spoken):
        compacted(spoken)
        spoken.append("user", "Go on.")
        assert managed(spoken, CLAUDE).manage(spoken).uncovered
        assert extracts(spoken) == {}

    def test_compaction_that_was_rewound_has_none(self, spoken):
        done = compacted(spoken)
        spoken.rewind(done.seq)
        managed(spoken).manage(spoken)
        assert extracts(spoken) == {}
        spoken.undo()
        managed(spoken).manage(spoken)
        assert [*extracts(spoken)] == [done.seq]

    def test_messages_without_text_leave_an_empty_extract(self, chat):
        source = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
        chat.append("user", [{"type": "image", "source": source}])
        done = compacted(chat)
        managed(chat).manage(chat)
        assert [*extracts(chat)] == [done.seq]
        assert not managed(chat).will_manage(chat)

    def test_fork_has_it_and_so_does_why(self, spoken):
        done = compacted(spoken)
        managed(spoken).manage(spoken)
        fork = spoken.fork()
        assert extracts(fork) == extracts(spoken)
        (reason,) = why(plain_session(spoken), 1).reasons
        assert (reason.seq, reason.text) == (done.covering, extracts(spoken)[done.seq])
        cut = spoken.fork(done.covering)
        assert extracts(cut) == {}
        managed(cut).manage(cut)
        assert extracts(cut) == extracts(spoken)


class TestRedaction:
    def test_lists_the_covering_and_the_extract(self, spoken):
        done = compacted(spoken)
        managed(spoken).manage(spoken)
        (note,) = spoken.notes("extract")
        receipt = spoken.redact(3)
        assert receipt.summaries == ((spoken.id, done.covering), (spoken.id, note.seq))

    def test_lists_all_extracts_of_a_row_that_was_hidden_twice(self, spoken):
        first = compacted(spoken, 1)
        spoken.append("user", "And now?")
        second = compacted(spoken, 2)
        managed(spoken).manage(spoken)
        notes = [note.seq for note in spoken.notes("extract")]
        listed = [seq for _, seq in spoken.redact(3).summaries]
        assert sorted(listed) == sorted([first.covering, second.covering, *notes])
        listed = [seq for _, seq in spoken.redact(second.seq - 1).summaries]
        assert listed == [second.covering, notes[1]]

    def test_erases_the_extract_in_forks_too(self, spoken, store):
        done = compacted(spoken)
        managed(spoken).manage(spoken)
        (note,) = spoken.notes("extract")
        assert SECRET in note.content["text"]
        fork = spoken.fork()
        assert spoken.redact(note.seq, dry_run=True).changed
        receipt = spoken.redact(note.seq)
        assert receipt.changed
        assert receipt.copies == ((spoken.id, note.seq), (fork.id, note.seq))
        for chat in (spoken, fork):
            assert extracts(chat) == {done.seq: ""}
            assert SECRET not in str([one for one in chat.audit() if one.seq > 3])
            assert chat.verify().ok
            last = chat.head()
            managed(chat).manage(chat)
            assert chat.head() == last  # it is not written again
        assert not spoken.redact(note.seq).changed

    def test_of_a_covering_erases_the_message_with_its_compaction(self, spoken):
        done = compacted(spoken)
        spoken.append("user", "And now?")
        before = shown(spoken)
        receipt = spoken.redact(done.covering)
        assert (receipt.seq, receipt.changed) == (done.seq, True)
        assert shown(spoken) == before
        assert "sealed" not in str([one.entry.content for one in spoken.audit()])
        assert not spoken.redact(done.seq).changed
        assert spoken.verify().ok

    def test_while_the_extract_is_made_prevents_it(self, spoken):
        done = compacted(spoken)
        hidden = spoken.internals.hidden_by(done.covering)
        assert SECRET in str([message.content for message in hidden.messages])
        spoken.redact(3)
        assert not spoken.internals.keep_extract(hidden, SECRET)
        assert extracts(spoken) == {}
        managed(spoken).manage(spoken)
        assert SECRET not in extracts(spoken)[done.seq]

    def test_second_extract_at_the_same_time_is_not_written(self, spoken):
        done = compacted(spoken)
        hidden = spoken.internals.hidden_by(done.covering)
        assert spoken.internals.keep_extract(hidden, "One.")
        assert not spoken.internals.keep_extract(hidden, "Two.")
        assert extracts(spoken) == {done.seq: "One."}
