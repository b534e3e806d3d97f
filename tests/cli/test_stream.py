"""A long session is shown message by message, and none of it is kept."""

import io

from roocontext import NewMessage, Plan
from roocontext.cli.screens import timeline
from roocontext.cli.screens.screen import Screen
from roocontext.reports import history
from roocontext.store.counting import count
from roocontext.tokens import counter_for


def test_message_is_shown_before_the_next_one_is_read(store):
    chat = store.create()
    chat.append_many([NewMessage("user", f"message {number}.") for number in range(5)])
    shown, rows = history.streamed_history(chat, None)
    file = io.StringIO()

    def watched():
        for number, row in enumerate(rows):
            assert number == 0 or f"message {number - 1}." in file.getvalue()
            assert f"message {number}." not in file.getvalue()
            yield row

    timeline.draw_view(Screen(file), shown, full=False, name="", rows=watched())
    assert "the model sees 5 messages.\n" in file.getvalue()
    assert "message 4." in file.getvalue()


def test_messages_are_read_page_by_page_at_one_moment(store):
    chat = store.create()
    chat.append_many([NewMessage("user", f"message {number}") for number in range(900)])
    whole = history.effective_history(chat, None)
    shown, rows = history.streamed_history(chat, None)
    assert dict(shown) == {**dict(whole), "messages": []}
    seen = [next(rows)]
    chat.redact(899)
    chat.append("user", "too late")
    seen += rows
    assert len(seen) == 900
    assert seen[:800] == whole.messages[:800]
    assert "899" not in str(seen[898].content)  # read only after its redaction


def test_view_is_counted_in_portions(store, monkeypatch):
    chat = store.create()
    for number in range(4):
        chat.append_many([NewMessage("user", f"word {n} " * n) for n in range(12)])
        seqs = [message.seq for message in chat.view().messages[-6:-3]]
        chat.commit(Plan.condense(chat.view(), seqs, f"S{number}"))
    whole = chat.fork(session_id="whole").tokens(counter_for(""))
    sizes = []
    read = count.read_messages

    def counted(*given, **options):
        sizes.append(len(found := read(*given, **options)))
        return found

    monkeypatch.setattr(count, "_AT_ONCE", 5)
    monkeypatch.setattr(count, "read_messages", counted)
    assert chat.fork(session_id="portions").tokens(counter_for("")) == whole
    assert len(sizes) > 5
    assert max(sizes) <= 5
