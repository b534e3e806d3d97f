"""The outline and the overview: what they sum up is what the audit and the statistics list."""

from typing import Any

import pytest
from hypothesis import given, settings

from roocontext import Plan, Session, SessionOverview, Store
from roocontext.log.encoding import encode
from roocontext.log.entries import MESSAGE_KINDS, Kind
from support import showcase
from support.examples import examples
from support.histories import HISTORIES, play


def check_outline(chat: Session) -> None:
    """Compare an outline with the audit, entry by entry."""
    found = chat.internals.outline()
    audit = {entry.seq: entry for entry in chat.audit()}
    rewinds = {seq for seq, entry in audit.items() if entry.kind is Kind.REWIND}
    covered = [seq for one in found.parts for seq in range(one.span.lo, one.span.hi + 1)]
    assert covered == sorted(audit.keys() - rewinds)
    assert found.info == chat.info()
    acting = [(e.seq, e.kind, e.entry.details) for e in audit.values() if e.entry.details]
    assert [tuple(one) for one in found.controls] == acting
    for one in found.parts:
        rows = [audit[seq] for seq in range(one.span.lo, one.span.hi + 1)]
        messages = [row for row in rows if row.kind in MESSAGE_KINDS]
        assert one.messages == len(messages)
        for row in messages:
            assert (row.condense_parent, row.truncation_parent, row.rewound_by) == (
                one.span.condense_parent,
                one.span.truncation_parent,
                one.span.rewound_by,
            )


@given(HISTORIES)
@settings(max_examples=examples(20))
def test_outline_agrees_with_the_audit(scenes: Any) -> None:
    with Store.open(":memory:") as store:
        chat = store.create()
        play(chat, scenes)
        check_outline(chat)


def check_overview(store: Store) -> None:
    """Compare an overview with the list and the statistics of each session."""
    found = store.overview()
    assert [one.info for one in found] == store.sessions()
    for one in found:
        chat = store.session(one.info.session_id)
        assert one.stats == chat.stats()
        models = [call.model for call in chat.calls(last=200) if call.model]
        assert one.model == (models[-1] if models else None)
        _check_last_call(chat, one)
        assert [info.session_id for info in store.find(one.beginning)] == [chat.id]
    assert store.overview(limit=2) == found[:2]


def _check_last_call(chat: Session, one: SessionOverview) -> None:
    """Compare the last call of an overview with the audit."""
    live = {row.seq: row for row in chat.audit() if row.rewound_by is None}
    acting = [row for row in live.values() if row.entry.details is not None]
    controls = [row.seq for row in acting if row.kind != Kind.REWIND]
    calls = [call for call in chat.calls(last=200) if call.model and call.seq in live]
    found = one.last_call
    if not calls or max(controls, default=0) > calls[-1].seq:
        assert found is None
        return
    later = [row for row in live.values() if row.visible and row.seq > calls[-1].seq]
    since = [len(encode(row.content)) for row in later]
    assert found is not None
    assert (found.seq, found.model) == (calls[-1].seq, calls[-1].model)
    assert (found.usage, found.bytes_since) == (calls[-1].usage, sum(since))


@pytest.fixture(params=["file", "postgres"])
def shown(request: pytest.FixtureRequest, tmp_path: Any) -> Any:
    """A store that holds the showcase."""
    if request.param == "postgres":
        url = request.getfixturevalue("postgres_url")
    else:
        url = str(tmp_path / "store.db")
    showcase.build(url)
    with Store.open(url) as store:
        yield store


def test_overview_is_the_statistics_of_each(shown: Store) -> None:
    chat = shown.session("foreign")
    for number in (1, 2):
        chat.append("assistant", "x", model="gpt-4o", usage={"input_tokens": number})
        chat.append("user", f"more {number}")
    shown.purge("parsley")
    check_overview(shown)
    for to in (8, 7, 6, 5):  # the first call counts again, and none at last
        chat.rewind(to=to)
        check_overview(shown)
    chat.undo()
    chat.append("user", "more")
    (oldest, *_) = chat.view().messages
    chat.commit(Plan.condense(chat.view(), [oldest.seq], "S"))
    check_overview(shown)
    chat.rewind(to=chat.head_seq() - 1)
    check_overview(shown)
    for info in shown.sessions():
        check_outline(shown.session(info.session_id))


@pytest.mark.parametrize("kind", ["overview", "outline"])
def test_overview_takes_the_same_statements_at_any_size(
    kind: str, shown: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    from roocontext.store.engine.transaction import Transaction  # noqa: PLC0415 - its statements are counted

    asked: list[str] = []
    rows = Transaction.rows

    def counted(self: Any, statement: Any, **params: Any) -> Any:
        asked.append(str(statement))
        return rows(self, statement, **params)

    monkeypatch.setattr(Transaction, "rows", counted)
    if kind == "overview":
        assert len(shown.overview()) == 6
        assert len(asked) == 1
    else:
        shown.session("parser").internals.outline()
    assert not [text for text in asked if "entries.content" in text]
