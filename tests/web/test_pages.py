"""Pages of sessions: what the model sees, what hides what, paging, and the bounds of a page."""

import json
import random
import re
from base64 import b64encode
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings

from roocontext import Plan, Session, Store
from roocontext.errors import StoreFull, StoreReadOnly, StoreUnavailable
from roocontext.log.entries import MESSAGE_KINDS, Kind
from roocontext.log.readings import Holds, pieces, reader, walk
from roocontext.reports.markup.body import Style
from roocontext.reports.markup.safe_html import visible
from roocontext.store.engine.transaction import Transaction
from roocontext.store.sessions.excerpt import Anchor, Extent
from support.dialogue import call, fill, result, text
from support.examples import examples
from support.histories import HISTORIES, play
from support.web_pages import WebPage, every_page, page_of, plain_store
from support.web_server import WebClient, serving

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


@pytest.fixture(scope="module")
def web(shared: Any) -> Iterator[WebClient]:
    """A client of a server over the store that the tests of a leg share."""
    with serving(plain_store(shared.store)) as client:
        yield client


def words(message: Any) -> list[str]:
    """The texts of a message, and the names of its tools."""
    blocks = reader(message.format).blocks(message.role, message.content)[1]
    kinds = (Holds.TEXT, Holds.CALL)
    return [piece.text or "" for piece in walk(pieces(blocks)) if piece.kind in kinds]


def squeezed(text: str) -> str:
    return "".join(visible(text.replace("\r\n", "\n")).split())


# What the model sees


@given(history=HISTORIES)
@settings(max_examples=examples(12))
def test_view_of_a_page_is_the_view_at_every_entry(shared, history):
    chat = plain_store(shared.store).create()
    play(chat, history)
    for seq in range(chat.info().last_seq + 1):
        view = chat.view(as_of=seq)
        shown = [article for page in reversed(pages_as_of(chat, seq)) for article in page.articles]
        assert [article.seq for article in shown] == [message.seq for message in view.messages]
        for article, message in zip(shown, view.messages, strict=True):
            assert article.kind == message.kind
            for said in words(message):
                assert squeezed(said[:60]) in squeezed(article.words)


def pages_as_of(chat: Session, seq: int) -> list[WebPage]:
    """All pages of the view right after an entry, the newest first."""
    style = Style(markdown=False)
    pages = [page_of(chat, as_of=seq, style=style)]
    while any("Earlier" in name for _, name in pages[-1].links):
        pages.append(page_of(chat, as_of=seq, style=style, place=Anchor(before=pages[-1].seqs[0])))
    return pages


@given(history=HISTORIES)
@settings(max_examples=examples(20))
def test_what_is_hidden_and_what_hides_it_are_linked(shared, history):
    chat = plain_store(shared.store).create()
    play(chat, history)
    entries = list(chat.audit())
    pages = every_page(chat, Extent.ALL)
    shown = {seq: article for page in pages for seq, article in page.by_seq.items()}
    assert sorted(shown) == [entry.seq for entry in entries]
    for entry in entries:
        article = shown[entry.seq]
        links = [link for link in article.links if link.startswith(("#", "/"))]
        of_entries = [link for link in links if not re.search("diff|request|whole|image", link)]
        numbers = {int(it.rpartition("e/")[2].rpartition("#e")[2] or 0) for it in of_entries}
        assert {hider.seq for hider in entry.hiders} <= numbers
        details = entry.entry.details or {}
        assert {lo for lo, _ in details.get("hides", [])[:12]} <= numbers
        assert set(details.get("uncovers", [])) <= numbers
        if entry.kind in MESSAGE_KINDS:
            assert bool(article.folds) == (entry.hidden_by is not None)
            assert article.state == ("visible" if entry.visible else "hidden")


@given(history=HISTORIES)
@settings(max_examples=examples(10))
def test_live_entries_are_those_that_no_rewind_took_back(shared, history):
    chat = plain_store(shared.store).create()
    play(chat, history)
    shown = [seq for page in reversed(every_page(chat, Extent.LIVE)) for seq in page.seqs]
    assert shown == [
        entry.seq
        for entry in chat.audit()
        if entry.rewound_by is None
        and entry.kind is not Kind.NOTE
        and not (entry.kind is Kind.REWIND and is_between(chat, entry.seq))
    ]


def is_between(chat: Session, seq: int) -> bool:
    """Rewinds have no tag of their own: those within a stretch that was taken back go with it."""
    spans = chat.internals.excerpt(Extent.ALL).spans
    return any(span.lo <= seq <= span.hi and span.rewound_by for span in spans)


def test_what_one_entry_hides_is_one_fold(chat):
    fill(chat, 6)
    chat.set_title("in between")
    fill(chat, 4)
    chat.commit(Plan.condense(chat.view(), [1, 2, 3, 4, 5, 6, 8, 9], "S"))
    page = page_of(chat, extent=Extent.ALL)
    assert page.text.count('<details class="fold hidden">') == 1
    assert (page.by_seq[7].folds, page.by_seq[10].folds) == (["fold hidden"], [])


def test_cleared_output_is_a_placeholder_in_the_view_and_whole_elsewhere(chat):
    chat.append("user", "go")
    chat.append("assistant", [call("t1")])
    chat.append("user", [result("t1", "secret output " * 40)])
    chat.append("assistant", "done")
    clearing = chat.commit(Plan.clear(chat.view(), [(3, 0)])).seq
    assert "secret output" not in page_of(chat).by_seq[3].words
    assert f"cleared by clearing {clearing}" in page_of(chat).by_seq[3].words
    assert "secret output" in page_of(chat, extent=Extent.ALL).by_seq[3].words


# Paging and deep links


@pytest.mark.parametrize("extent", list(Extent))
def test_pages_follow_each_other(chat, extent):
    fill(chat, 130)
    chat.commit(Plan.condense(chat.view(), range(10, 30), "S"))
    pages = every_page(chat, extent)
    assert len(pages) >= 3
    shown = [seq for page in reversed(pages) for seq in page.seqs]
    assert len(shown) == len(set(shown))
    again, place = [], Anchor(at=shown[0])
    while True:
        page = page_of(chat, extent=extent, place=place)
        again += page.seqs
        if not any("Later" in name for _, name in page.links):
            break
        place = Anchor(after=page.seqs[-1])
    assert again == shown


def test_each_entry_has_an_address_for_ever(web, chat):
    fill(chat, 70)
    chat.commit(Plan.condense(chat.view(), range(2, 60), "S"))
    chat.rewind(to=chat.append("user", "left").seq - 1)
    chat.redact(1)
    for seq in (1, 2, 40, 71, 72, 73):
        moved = web.get(f"/s/{chat.id}/e/{seq}")
        assert moved.status == 303
        address, _, fragment = moved.headers["location"].partition("#")
        page = WebPage(web.get(address).body.decode())
        assert fragment in page.ids
        assert page.by_seq[seq].is_open
    assert web.get(f"/s/{chat.id}/e/99").status == 404
    assert web.get(f"/s/{chat.id}?as_of=99").status == 404


def test_message_that_left_the_view_is_found_elsewhere(web, chat):
    fill(chat, 10)
    chat.commit(Plan.condense(chat.view(), range(2, 6), "S"))
    moved = web.get(f"/s/{chat.id}?before=3")
    assert (moved.status, moved.headers["location"]) == (303, f"/s/{chat.id}?tab=all&at=3#e3")


def test_time_names_an_entry(web, chat):
    chat.append("user", "one", ts=1_000)
    chat.append("user", "two", ts=90_000_000)
    moved = web.get(f"/s/{chat.id}?as_of=1970-01-02T00:00%2B00:00&tab=all")
    assert moved.headers["location"] == f"/s/{chat.id}?tab=all&as_of=1"
    assert web.get(f"/s/{chat.id}?as_of=soon").status == 400
    assert web.get(f"/s/{chat.id}?tab=none").status == 400
    assert web.get(f"/s/{chat.id}?at=1&after=1").status == 400
    for number in ("-1", "1x", "9" * 19, "0" * 20 + "1", "0" * 20 + "9" * 5_000):
        assert web.get(f"/s/{chat.id}?tab=all&at={number}").status == 400
        assert web.get(f"/s/{chat.id}/diff?from={number}").status == 400


# Bounds


def incompressible(size: int, letters: str) -> str:
    return "".join(random.Random(size).choices(letters, k=size))


CHINESE = "".join(map(chr, range(0x4E00, 0x9000)))
BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

LARGE: dict[str, Any] = {
    "long texts": [("user", "word " * 4_000)] * 60,
    "one output of megabytes": [
        ("assistant", [call("t1")]),
        ("user", [result("t1", "line\n" * 1_000_000)]),
    ],
    "thousands of blocks": [("user", [text(f"block {n}") for n in range(5_000)])] * 3,
    "thousands of calls": [("assistant", [call(f"t{n}") for n in range(2_000)])] * 3,
    "tables": [("assistant", "|a|b|c|\n|-|-|-|\n" + "|1|2|3|\n" * 1_000)] * 30,
    "lists in lists": [("assistant", "".join(f"{' ' * (n % 16)}- x\n" for n in range(4_000)))] * 30,
    "code": [("assistant", "```python\n" + "f(a, b)[1] + 'x'\n" * 400 + "```")] * 40,
    "noise": [("user", incompressible(20_000, BASE64))] * 60,
    "chinese noise": [("user", incompressible(20_000, CHINESE))] * 60,
    "long names": [("assistant", [{**call("t" * 200), "name": "n" * 4_000}], "m" * 150)] * 60,
}


@pytest.mark.values_on_one_leg
@pytest.mark.parametrize("name", LARGE)
def test_no_page_is_large(chat, name):
    for role, content, *model in LARGE[name]:
        chat.append(role, content, model=model[0] if model else None)
    for extent in (Extent.VIEW, Extent.ALL):
        for style in (Style(), Style(markdown=False, edits_open=True)):
            page = page_of(chat, extent=extent, style=style)
            page.check_bounds()
            assert len(page.articles) == min(len(LARGE[name]), len(page.articles), 50)
    if name == "one output of megabytes":
        assert "show all" in page.by_seq[2].words


@pytest.fixture
def statements(monkeypatch):
    """The statements that a store sends, apart from those of its transactions."""
    sent: list[str] = []
    execute = Transaction._execute

    def counting(tx: Any, statement: Any, params: Any) -> Any:
        sent.append(str(statement))
        return execute(tx, statement, params)

    monkeypatch.setattr(Transaction, "_execute", counting)
    return sent


def test_statements_of_a_page_are_those_of_the_ranges_that_it_shows(chat, statements):
    fill(chat, 120)
    chat.commit(Plan.condense(chat.view(), range(2, 60), "S"))
    extents = [({"extent": extent}, 1) for extent in (Extent.ALL, Extent.LIVE)]
    for options, ranges in (({}, 2), *extents, ({"place": Anchor(before=90)}, 3)):
        statements.clear()
        page_of(chat, **options)
        # The kinds and sizes of each range are read, and then its rows.
        assert 0 < len(statements) <= 6 + 2 * ranges
    chat.rewind(to=50)
    statements.clear()
    page_of(chat, as_of=100)
    assert len(statements) <= 9  # and the size of the view at that moment


def test_list_reads_no_content(lab, statements):
    store = plain_store(lab.store)
    store.create().append("user", "hello")
    with serving(store) as web:
        statements.clear()
        page = WebPage(web.get("/").body.decode())
    listed, *costs = statements
    assert len(costs) <= 5
    # Of notes only: where a fork came from, and what a failed compaction cost.
    assert "SELECT entries.content" in listed
    assert all("entries.note = " in each for each in statements if "entries.content" in each)
    page.check_bounds()


def test_content_of_a_very_large_entry_is_not_read(chat):
    chat.append("user", "x" * 3_000_000)
    (entry,) = chat.internals.excerpt(Extent.ALL).entries
    assert entry.audited.content is None
    assert len(entry.head or "") < 10_000
    assert "3 MB" in page_of(chat).by_seq[1].words


# Nothing acts

HOSTILE = [
    "</script><script>alert(1)</script>",
    "</style><img src=x onerror=alert(1)>",
    "</pre></article><iframe srcdoc='x'>",
    '" onmouseover="alert(1)" style="x',
    "<!--",
    "[x](javascript:alert(1)) ![y](data:text/html,x) <javascript:alert(1)>",
    "[x](//evil.test/a) ![y](http://evil.test/pixel.png)",
    "&#x202e;&#0; \u202e\0\x1b[2J\ud83d\x9b",
    "{{7*7}} ${7} {% x %}",
    "```<script>\nalert(1)\n```",
    "[" * 400 + "](" * 400,
    "../../etc/passwd",
]


@pytest.mark.values_on_one_leg
@pytest.mark.parametrize("evil", HOSTILE)
def test_hostile_content_is_text_on_every_page(web, kept, evil):
    safe = evil.replace("\0", "").encode("utf-8", "ignore").decode()
    name = f"{safe[:300]} {kept.create().id}"
    chat = kept.create(name, title=safe[:300], metadata={"tool": evil, evil: evil})
    source = {"type": "base64", "media_type": evil, "data": evil}
    tool = {"type": "tool_use", "id": evil, "name": evil, "input": {evil: evil, "path": evil}}
    edit = {"type": "tool_use", "id": "e", "name": "edit", "input": {"old": evil, "new": evil}}
    thought = {"type": "thinking", "thinking": evil, "signature": evil}
    image = {"type": "image", "source": source}
    chat.append("user", evil, ts=2**62)
    chat.append("assistant", [thought, text(evil), tool, edit, {"type": evil}], model=safe[:200])
    chat.append(
        "user", [result(evil, [text(evil), image]), {**result("e", evil), "is_error": True}]
    )
    chat.note(safe[:300], {"event": "failed", "reason": evil}, target=3)
    chat.note("odd", {evil: [evil]})
    chat.commit(Plan.condense(chat.view(), [4, 5], evil, trigger=safe[:300], policy=safe[:300]))
    path = f"/s/{quote(name, safe='')}"
    addresses = ["/", *(f"{path}?tab={tab}" for tab in Extent), f"{path}?tab=all&md=0"]
    addresses += [f"{path}/e/{seq}/whole" for seq in range(1, 9)]
    addresses += [f"{path}/e/4/request", f"/?text={quote(safe[:300])}"]
    addresses += [f"{path}/diff?from=0&to=8", f"{path}/timeline", f"{path}/usage"]
    addresses += [f"{path}/export", f"/search?q={quote(safe[:300])}&session={quote(name)}"]
    for address in addresses:
        answer = web.get(address, accept="text/html")
        assert answer.status == 200, address
        body = answer.body.decode()
        assert not set(body) & set("\u202e\0\x1b\x9b")
        page = WebPage(body)
        assert page.headings
        page.check_bounds()


# One entry


def test_all_of_an_entry_in_parts(web, chat):
    chat.append("user", "".join(f"line {n}\n" for n in range(20_000)))
    path = f"/s/{chat.id}/e/1/whole"
    first = web.get(path).body.decode()
    assert "line 0\n" in first
    assert "line 19999\n" in web.get(f"{path}?part=999").body.decode()
    WebPage(first).check_bounds()
    raw = web.get(f"/s/{chat.id}/e/1/raw")
    assert json.loads(raw.body) == chat.message(1).content
    assert raw.headers["content-disposition"].startswith("attachment")
    assert "sandbox" in raw.headers["content-security-policy"]


def test_images_are_files_of_their_own(web, chat):
    data = b64encode(PNG).decode()
    good = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
    svg = {"type": "image", "source": {**good["source"], "media_type": "image/svg+xml"}}
    chat.append("user", [svg, good])
    page = WebPage(web.get(f"/s/{chat.id}").body.decode())
    (source,) = [one for one in page.sources if "image" in one]
    answer = web.get(source)
    assert (answer.body, answer.headers["content-type"]) == (PNG, "image/png")
    assert web.get(f"/s/{chat.id}/e/1/image/{'0' * 16}").status == 404


def test_request_as_it_was_sent(web, chat):
    chat.append("user", "the first question")
    request = chat.request(model="claude-sonnet-4-5", system="Be brief.")
    chat.append("user", "too late")
    chat.append("assistant", "answer", asked_at=request.seq, model="claude-sonnet-4-5")
    page = WebPage(web.get(f"/s/{chat.id}").body.decode())
    text = web.get(page.link("request as it was sent")).body.decode()
    assert "the first question" in text
    assert "Be brief." in text
    assert "too late" not in text


# Search, comparison, figures over time


def test_search_finds_hidden_messages_and_names_what_hides_them(web, chat):
    fill(chat, 6)
    hidden = chat.append("user", "the word xylophone").seq
    summary = chat.commit(Plan.condense(chat.view(), [2, 3, hidden], "S")).seq
    path = f"/search?q=xylophone&session={chat.id}"
    page = WebPage(web.get(path).body.decode())
    assert page.link(f"Entry {hidden}") == f"/s/{chat.id}/e/{hidden}"
    assert page.link(f"summary {summary}") == f"/s/{chat.id}/e/{summary}"
    assert "<mark>xylophone</mark>" in page.text
    assert "xylophone</mark>" not in web.get(f"{path}&among=visible").body.decode()
    assert web.get(f"{path}&among=none").status == 400


@pytest.mark.one_leg
@pytest.mark.parametrize("kind", [StoreReadOnly, StoreFull, StoreUnavailable])
def test_search_without_an_index_that_can_be_written_finds_the_same(
    web, store, chat, kind, monkeypatch
):
    seq = chat.append("user", "the word xylophone").seq

    def index(store: Any) -> None:
        raise kind("The index cannot be written.")

    monkeypatch.setattr(Store, "index", index)
    answer = web.get("/search?q=xylophone")
    page = WebPage(answer.body.decode())
    assert (answer.status, page.link(f"Entry {seq}")) == (200, f"/s/{chat.id}/e/{seq}")


def test_comparison_shows_what_left_and_what_came_and_why(web, chat):
    fill(chat, 6)
    before = chat.info().last_seq
    summary = chat.commit(Plan.condense(chat.view(), [2, 3], "S")).seq
    page = WebPage(web.get(f"/s/{chat.id}/diff?from={before}&to={summary}").body.decode())
    assert "2 messages left the view" in page.text.replace("<h2>", "")
    assert "1 message came into it" in page.text
    assert page.link(str(summary)) == f"/s/{chat.id}/e/{summary}"


@pytest.mark.one_leg
def test_pages_over_time_stay_small(web, chat):
    usage = {"input_tokens": 1_000, "output_tokens": 10}
    for number in range(300):
        chat.append("user", "question")
        chat.append("assistant", "answer", model="claude-sonnet-4-5", usage=usage)
        last = chat.info().last_seq
        chat.commit(Plan.condense(chat.view(), [last - 1, last], "S"))
        if number % 3 == 0:
            chat.rewind(to=chat.append("user", "left").seq - 1)
    for name in ("timeline", "usage", "diff?from=0", "diff?from=300&to=900"):
        WebPage(web.get(f"/s/{chat.id}/{name}").body.decode()).check_bounds()
    picture = web.get(f"/s/{chat.id}/timeline").body.decode().partition("</svg>")[0]
    assert 100 < picture.count("aria-label=") <= 500
    assert "<polyline" in web.get(f"/s/{chat.id}/usage").body.decode()


def test_exports_are_files(web, chat):
    chat.append("user", "in /home/ann/project")
    path = f"/s/{chat.id}/export"
    for to, name in (("html", "html"), ("markdown", "md"), ("jsonl", "jsonl")):
        answer = web.get(f"{path}?to={to}")
        assert f'"{chat.id}.{name}"' in answer.headers["content-disposition"]
        assert b"/home/ann" in answer.body
    assert b"/home/ann" not in web.get(f"{path}?to=html&redact=1").body
    assert json.loads(web.get(f"{path}?to=anthropic").body)["messages"]
    assert web.get(f"{path}?to=roo").status == 400


def test_export_that_fails_is_an_error_and_not_a_broken_file(web, chat, monkeypatch):
    chat.append("user", "x")

    def audit(chat: Any) -> Any:
        raise StoreUnavailable("The database went away.")
        yield

    monkeypatch.setattr(Session, "audit", audit)
    assert web.get(f"/s/{chat.id}/export?to=html").status == 503
