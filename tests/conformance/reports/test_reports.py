"""Reports: one statement for a list, no content for a tree, and the tree that the audit shows."""

import json
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from pydantic import ValidationError

from roocontext import Plan, Session, SessionOverview, Store
from roocontext.errors import SessionNotFound
from roocontext.log.encoding import encode
from roocontext.log.entries import MESSAGE_KINDS, Kind
from roocontext.reports import health, history, naming, sessions, tree, usage, why
from roocontext.reports.document import as_json
from roocontext.store.engine.statements import Compiled
from support import showcase
from support.examples import examples
from support.histories import HISTORIES, play
from support.replies import CLAUDE, claude, readable

HIDING = (Kind.SUMMARY, Kind.MARKER, Kind.COVERING, Kind.CLEARING)


@pytest.fixture(scope="module", params=["file", "postgres"])
def shown(request: pytest.FixtureRequest, opened: Callable[..., Any]) -> Iterator[Store]:
    """A store that holds the showcase, which nobody changes."""
    with opened(request.param, "sync") as lab:
        showcase.build(lab.url)
        yield lab.store


@pytest.fixture
def own_showcase(lab: Any) -> Store:
    """A store of the test's own that holds it."""
    showcase.build(lab.url)
    store: Store = lab.store
    return store


@pytest.fixture
def list_of(request: pytest.FixtureRequest) -> Callable[[int], int]:
    """How many statements a list is, given how many sessions it reads.

    On a cluster they are the page, the sizes, and the two neighbours of each session.
    """
    is_cluster = request.config.getoption("--distributed")
    return lambda read: 2 + 2 * read if is_cluster else 1


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The statements that are run."""
    run: list[str] = []
    bind = Compiled.bind

    def recording(self: Any, params: Any) -> Any:
        run.append(self.text)
        return bind(self, params)

    monkeypatch.setattr(Compiled, "bind", recording)
    return run


def reads_of_notes_only(statements: list[str]) -> bool:
    """True if the only contents that are read say where a fork came from."""
    return all(
        text.count("entries.content") == text.count("entries.note = 'origin'")
        for text in statements
    )


def test_list_is_one_statement_and_another_if_a_text_is_found(shown, statements, list_of):
    for text, limit, found, asked in (
        ("", 1, 1, list_of(2)),
        ("", 20, 6, list_of(6)),
        # The sizes are read of the sessions that have the text.
        ("PARS", 20, 2, 1 + list_of(2)),
        ("none", 20, 0, 1),
    ):
        statements.clear()
        answer = sessions.matching_sessions(shown, text, limit=limit)
        assert (len(answer.sessions), len(statements)) == (found, asked)
        assert reads_of_notes_only(statements)
    assert sessions.matching_sessions(shown, limit=5).next is not None
    assert sessions.matching_sessions(shown, limit=6).next is None


def test_sums_of_all_sessions_are_one_statement(shown, statements, list_of):
    answer = sessions.total_stats(shown)
    assert len(statements) == list_of(6)
    each = [shown.session(info.session_id).stats() for info in naming.list_all(shown)]
    assert answer == sessions.summed(each, None)


def test_title_is_found_whatever_its_case(tmp_path):
    with Store.open(tmp_path / "store.db") as store:
        store.create("one", title="Die GRÖSSE der Straße")
        for text in ("größe", "STRASSE", "One"):
            assert [row.session_id for row in sessions.matching_sessions(store, text).sessions] == [
                "one"
            ]


def test_tree_reads_no_content(shown, statements):
    tree.tree_of(shown.session("parser"))
    assert not [text for text in statements if "entries.content" in text]


def test_usage_is_one_query_and_reads_no_message(shown, statements):
    assert shown.session("parser").usage(family=True)
    (asked,) = [text for text in statements if "entries" in text]
    assert asked.count("content") == 1
    assert "WHEN (entries.note = 'compaction') THEN entries.content END" in asked


@given(HISTORIES)
@settings(max_examples=examples(20))
def test_tree_and_outline_agree_with_the_audit(scenes):
    with Store.open(":memory:") as store:
        chat = store.create()
        play(chat, scenes)
        check_tree(chat)
        check_outline(chat)


def test_tree_shows_what_takes_back_or_hides_a_covering():
    with Store.open(":memory:") as store:
        chat = store.create()
        chat.append("user", "Read it")
        reply = claude(readable("All so far."))
        done = chat.record(reply, chat.request("anthropic", model=CLAUDE))
        chat.rewind(done.seq)
        check_tree(chat)
        chat.undo()
        chat.commit(Plan.condense(chat.view(), [done.seq], "x"))
        check_tree(chat)


def check_tree(chat: Session) -> None:
    """Compare each number of a tree with the entries of the audit."""
    found = tree.tree_of(chat)
    audit = {one.seq: one for one in chat.audit()}
    messages = {seq for seq, one in audit.items() if one.kind in MESSAGE_KINDS}
    visible = {seq for seq, one in audit.items() if one.visible}
    assert (found.entries, found.messages) == (len(audit), len(messages))
    assert found.visible_messages == len(visible)
    assert all(one.hi < other.lo for one, other in pairwise(found.stretches))
    for one in found.stretches:
        inside = set(range(one.lo, one.hi + 1))
        assert one.messages == len(inside & messages)
        assert one.visible == len(inside & visible)
        rewound = {audit[seq].rewound_by for seq in inside} - {None}
        assert rewound == ({one.rewound_by} - {None})
        assert not (one.live and rewound)
    acting = [one for one in audit.values() if one.kind in HIDING]
    assert [one.seq for one in found.hidings] == [one.seq for one in acting]
    for hiding, one in zip(found.hidings, acting, strict=True):
        assert hiding.live is (one.rewound_by is None)
        source, _ = one.entry.details.get("source", (one.seq, 0))
        assert hiding.hidden_by == (one.hidden_by or audit[source].hidden_by)
        parents = [(row.condense_parent, row.truncation_parent) for row in audit.values()]
        assert hiding.messages == sum(one.seq in pair for pair in parents)
    rewinds = [one for one in audit.values() if one.kind is Kind.REWIND]
    assert [(one.seq, one.to) for one in found.rewinds] == [
        (one.seq, one.entry.details["to"]) for one in rewinds
    ]


def test_names_that_are_no_unicode_are_shown_as_they_are(tmp_path):
    """A tool's name comes from a model, a folder's name from the file system."""
    found = health.Finding(check="file", status="bad", says="/srv/\udcff/agent.db")
    assert as_json(health.diagnosis("\udcff.db", [found]))["database"] == "\udcff.db"
    with Store.open(tmp_path / "store.db") as store:
        chat = store.create()
        chat.append("assistant", [showcase.call("t", "run\ud800")])
        assert [row.name for row in usage.usage_of(chat).tools] == ["run\ud800"]


def test_session_is_named_by_the_part_after_the_colon(store):
    for name in ("codex:019d021f", "codex:019e", "cline:019e", "w77", "cline:w77", "a:b:c"):
        store.create(f"{name}-of-colons")
    find = naming.session_named
    assert find(store, "019d021f") == "codex:019d021f-of-colons"
    assert find(store, "019d") == "codex:019d021f-of-colons"
    assert find(store, "w77") == "w77-of-colons"  # a whole beginning comes first
    assert find(store, "b:c") == "a:b:c-of-colons"
    with pytest.raises(SessionNotFound) as caught:
        find(store, "019e")
    assert "after the colon: 'cline:019e-of-colons', 'codex:019e-of-colons'." in str(caught.value)
    for name in ("=019d", "of-colons", "c-of"):
        with pytest.raises(SessionNotFound):
            find(store, name)
    store.create("codex:019e").append("user", "x")
    assert find(store, "019e") == "codex:019e"


def test_page_is_bounded_by_the_bytes_of_its_content(store):
    """A thousand bytes or five million: an entry alone is always shown."""
    chat = store.create()
    for size in (400_000, 400_000, 400_000, 5_000_000, 1_000):
        chat.append("user", "x" * size)

    def page(first: int) -> list[int]:
        return [row.seq for row in history.some_entries(chat, first, 10).entries]

    assert [page(first) for first in range(1, 7)] == [[1, 2], [2, 3], [3], [4], [5], []]
    assert [row.seq for row in history.some_entries(chat, 1, 1).entries] == [1]
    for newest, seqs in ((1, [5]), (2, [5]), (10, [5])):
        selection = history.Selection(newest=newest, most_bytes=history.PAGE_BYTES)
        shown = history.effective_history(chat, None, selection=selection)
        assert [row.seq for row in shown.messages] == seqs
    before = history.Selection(newest=3, most_bytes=history.PAGE_BYTES, reverse=True)
    shown = history.effective_history(chat, None, as_of=3, selection=before)
    assert [row.seq for row in shown.messages] == [3, 2]


def test_document_is_plain_json(shown):
    chat = shown.session("parser")
    rows = [*history.audit_rows(chat)]
    documents = [history.effective_history(chat, None), *rows, why.why(chat, 5), tree.tree_of(chat)]
    for document in [*documents, usage.usage_of(chat), sessions.matching_sessions(shown)]:
        plain = document.to_dict()
        assert plain == as_json(document)
        assert json.loads(json.dumps(plain)) == plain
    assert plain["sessions"][0]["context"]["counter"]


def test_document_is_validated(shown):
    row = history.one_entry(shown.session("parser"), 1)
    for name, value in (("seq", "one"), ("tools", ["run", 5]), ("recorded_at", "yesterday")):
        with pytest.raises(ValidationError):
            history.EntryRow.of(row, **{name: value})
    with pytest.raises(ValidationError):
        history.EntryRow.of(row, colour="red")


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


def check_overview(store: Store) -> None:
    """Compare an overview with the list and the statistics of each session."""
    found = store.overview()
    assert [one.info for one in found] == store.sessions()
    for one in found:
        chat = store.session(one.info.session_id)
        assert one.stats == chat.stats()
        models = [call.model for call in chat.internals.calls(last=200) if call.model]
        assert one.model == (models[-1] if models else None)
        _check_last_call(chat, one)
        assert [info.session_id for info in store.find(one.beginning)] == [chat.id]
    assert store.overview(limit=2) == found[:2]


def _check_last_call(chat: Session, one: SessionOverview) -> None:
    """Compare the last call of an overview with the audit."""
    live = {row.seq: row for row in chat.audit() if row.rewound_by is None}
    acting = [row for row in live.values() if row.entry.details is not None]
    controls = [row.seq for row in acting if row.kind != Kind.REWIND]
    calls = [call for call in chat.internals.calls(last=200) if call.model and call.seq in live]
    found = one.last_call
    if not calls or max(controls, default=0) > calls[-1].seq:
        assert found is None
        return
    later = [row for row in live.values() if row.visible and row.seq > calls[-1].seq]
    since = [len(encode(row.content)) for row in later]
    assert found is not None
    assert (found.seq, found.model) == (calls[-1].seq, calls[-1].model)
    assert (found.usage, found.bytes_since) == (calls[-1].usage, sum(since))


def test_overview_is_the_statistics_of_each(own_showcase):
    chat = own_showcase.session("foreign")
    for number in (1, 2):
        chat.append("assistant", "x", model="gpt-4o", usage={"input_tokens": number})
        chat.append("user", f"more {number}")
    own_showcase.purge("parsley")
    check_overview(own_showcase)
    for to in (8, 7, 6, 5):  # the first call counts again, and none at last
        chat.rewind(to=to)
        check_overview(own_showcase)
    chat.undo()
    chat.append("user", "more")
    (oldest, *_) = chat.view().messages
    chat.commit(Plan.condense(chat.view(), [oldest.seq], "S"))
    check_overview(own_showcase)
    chat.rewind(to=chat.head_seq() - 1)
    check_overview(own_showcase)
    for info in own_showcase.sessions():
        check_outline(own_showcase.session(info.session_id))


def test_overview_is_one_statement(shown, statements, list_of):
    assert (len(shown.overview()), len(statements)) == (6, list_of(6))
    shown.session("parser").internals.outline()
    assert reads_of_notes_only(statements)
