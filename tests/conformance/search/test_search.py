"""Search: what is found, in every state of the index, and what is said of each hit."""

import tracemalloc
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roocontext import NewMessage, Plan, Store
from roocontext.errors import HistoryCorrupt, InvalidOption, StoreReadOnly
from roocontext.search.query import terms_of
from roocontext.store.reading.pages import write_cursor
from support.citus_server import UNSAFE
from support.dialogue import result, text
from support.examples import TORTURE, examples
from support.pages import every_page
from support.steps import steps_of


def call(tool_id, **given):
    """A call of the tool `run`."""
    return {"type": "tool_use", "id": tool_id, "name": "run", "input": given}


STATES = ("fresh", "stale", "absent", "half built")

CORPUS = [
    ("user", "The parser drops the last token. Why does it?"),
    ("assistant", [text("I look at src/parser/lexer.py."), call("t1", command="rm -rf build/x-1")]),
    ("user", [result("t1", "error[E0502]: cannot borrow `fooBarBaz` in foo_bar.baz(3)\nexit 137")]),
    ("assistant", "HTTPServer.listen failed with 0x80070005 and ECONNREFUSED; utf8 is fine."),
    ("user", "数据库连接失败，请检查配置文件"),
    ("user", "データベースに接続できません。設定ファイルを確認してください"),
    ("user", "데이터베이스를 연결할 수 없습니다"),
    ("user", "deploy 🚀 done 👍🏽 → next"),
    ("user", "a\0b nul, lone \ud800 surrogate, \udfff end"),
    ("user", "ＦＵＬＬ width, cafe\u0301, Straße, ΣΊΣΥΦΟΣ"),
    ("assistant", '{"not": "json"} "quoted" \\ back* (paren) AND OR NOT NEAR - + ^ : col'),
    ("user", "Port it from C++ to C#, please. And F#?"),
    ("assistant", "C is smaller, (C++17) is not: g++ --std=c++17 $HOME/main.cpp"),
    ("user", "学习C++和.NET开发，@maya 看 org/repo#123"),
    ("assistant", "The net of a dot: ASP.NET, node.js, std and home of maya, 123"),
]
FOUND = {
    (1,): [
        *("PARSER token", '"last token"', "last drops", "tok*", '"the last tok"*'),
        '"the last tok*"',
    ],
    (1, 2): ["parser"],
    (2,): ["src/parser/lexer.py", "lexer.py", "rm -rf build", "run"],
    (3,): [
        *("E0502", "e0502", "foo_bar.baz()", "fooBar", "foobarbaz", "barBaz", "bar", "fooba*"),
        "137",
    ],
    (4,): ["http", "server.listen", "httpserver", "0x80070005", "ECONNREFUSED", "ECONN*"],
    (5,): ["库", "数据", "数据库", "据库连", "配置 连接"],
    (6,): ["データ", "タベ", "ル"],
    (7,): ["데이터베이스", "연결", "없"],
    (8,): ["🚀", "👍", "👍🏽", "→"],
    (9,): ["nul", "a\0b", "\ud800 surrogate"],
    (10,): ["full", "ｗｉｄｔｈ", "CAFÉ", "straße", "σίσυφοσ"],
    (11,): ["and or not near", '"quoted', "(paren) AND", "col:", "back*"],
    (12,): ["C#", "F#", "C++ C#", '"C++ to C#"'],
    (12, 13, 14): ["C++", "c++", "Ｃ＋＋", "(C++),", "C", "C+*", "C++*"],
    (13,): ["C++17", "g++", "--std", "--st*", "$HOME"],
    (13, 15): ["std", "home", "...std"],
    (14,): ["C++和", "C和", "和.NET", "@maya", "#123", "repo#123"],
    (14, 15): [".NET", ".ne*", "net", "maya", "123"],
    (15,): ["asp.net", "node.js"],
    (): [
        *('"token last"', "oken", "0502", "barbaz", "数库", "설정", "🏽👍", "C+", "C17"),
        '"C# to C++"',
        *("的.NET", "++", "", "   ", "***", '""', "()", "\0", "\ud800", "'", "%"),
        "nothing-of-this",
    ],
}
"""The queries that find these messages, by their number in the corpus."""
FINDS = {query: [*seqs] for seqs, queries in FOUND.items() for query in queries}


def seqs(page):
    return sorted(hit.seq for hit in page)


def found(store, query, **options):
    """The sessions and seqs of all hits, page after page."""
    pages = every_page(partial(store.search, query), **options)
    return [(hit.session_id, hit.seq) for page in pages for hit in page]


def written(lab, state):
    """A session that holds the corpus, indexed as far as the state says."""
    chat = lab.store.create()
    half = len(CORPUS) // 2
    chat.append_many([NewMessage(*one) for one in CORPUS[:half]])
    if state in ("stale", "half built"):
        lab.store.index()
    chat.append_many([NewMessage(*one) for one in CORPUS[half:]])
    if state == "fresh":
        lab.store.index()
    if state == "half built":
        other = lab.store.create()
        other.append("user", "of another session")
    return chat


@pytest.mark.parametrize("state", STATES)
def test_hits_are_the_same_in_every_state_of_the_index(lab, state):
    chat = written(lab, state)
    for number, (query, expected) in enumerate(FINDS.items()):
        assert seqs(lab.store.search(query)) == expected, query
        if number % 4 == 0 or TORTURE:
            assert seqs(lab.store.search(query, session=chat.id)) == expected, query


def test_hits_are_marked_in_snippets(lab):
    chat = lab.store.create()
    chat.append("user", "x " * 200 + "\nfoo_bar fails\n" + "y " * 300 + "fooBar again")
    (hit,) = lab.store.search("fooBar")
    shown = hit.snippet
    assert [shown.text[lo:hi] for lo, hi in shown.marks] == ["foo_bar"]
    assert shown.text.startswith("foo_bar fails\ny y")
    assert (shown.is_continued, shown.continues) == (True, True)
    assert len(shown.text) == 200
    (hit,) = lab.store.search("fails", context=1)
    assert hit.snippet.text.lstrip().startswith("x x")
    assert [hit.snippet.text[lo:hi] for lo, hi in hit.snippet.marks] == ["fails"]


def test_signs_are_marked_with_their_word(lab):
    chat = lab.store.create()
    chat.append("user", "From C to C++ and .NET, with C#")
    for query, marked in (
        ("C++", ["C++"]),
        (".net", [".NET"]),
        ("C", ["C", "C", "C"]),
        ('"and .NET" .NET with "net, with"', ["and .NET, with"]),
    ):
        (hit,) = lab.store.search(query)
        assert [hit.snippet.text[lo:hi] for lo, hi in hit.snippet.marks] == marked


@pytest.mark.every_leg
def test_hit_says_what_became_of_the_message(lab):
    chat = lab.store.create()
    for number in range(1, 7):
        chat.append("user" if number % 2 else "assistant", f"needle {number} " + "long " * 20)
    lab.store.index()
    summary = chat.commit(Plan.condense(chat.view(), [1, 2], "Short.")).seq
    rewind = chat.rewind(to=4).seq
    again = chat.commit(Plan.condense(chat.view(), [3, 4], "Needle shorter.")).seq
    hits = {hit.seq: hit for hit in lab.store.search("needle")}
    audit = {entry.seq: entry for entry in chat.audit()}
    assert set(hits) == {1, 2, 3, 4, 5, 6, again}
    assert rewind > summary
    for seq, hit in hits.items():
        entry = audit[seq]
        assert hit.visible == entry.visible
        for name in ("hidden_by", "hider", "condense_parent", "truncation_parent", "rewound_by"):
            assert getattr(hit, name) == getattr(entry, name), (seq, name)
    among = {
        "all": {1, 2, 3, 4, 5, 6, again},
        "standing": {1, 2, 3, 4, again},
        "visible": {1, 2, again},
        "hidden": {3, 4},
    }
    for which, expected in among.items():
        assert set(seqs(lab.store.search("needle", among=which))) == expected, which


def test_cleared_output_is_found_but_not_among_what_is_visible(lab):
    chat = lab.store.create()
    chat.append("user", "go")
    chat.append("assistant", [call("t1")])
    chat.append("user", [result("t1", "needle " * 50)])
    chat.append("assistant", "done")
    clearing = chat.commit(Plan.clear(chat.view(), [(3, 0)])).seq
    (hit,) = lab.store.search("needle")
    assert (hit.visible, hit.cleared) == (True, ((0, clearing),))
    assert lab.store.search("needle", among="visible") == []


def test_outputs_are_of_a_tool_however_many_calls_came_between(lab):
    chat = lab.store.create()
    ids = [f"%_{number}" for number in range(60)] + ["x" * 60_000, "\0", "call"]
    chat.append("assistant", [call(tool_id) for tool_id in ids])
    chat.append("assistant", [{**call("%_1x"), "name": "read"}, {**call("CALL"), "name": "read"}])
    expected = [chat.append("user", [result(tool_id, "needle")]).seq for tool_id in ids]
    chat.append("user", [result("%_1X", "needle")])
    found_now = lab.store.search("needle", tool="run", limit=100, order="oldest")
    assert seqs(found_now) == expected


def test_calls_that_a_message_answers_at_once_are_read_once(lab):
    def steps(calls: int) -> int:
        chat = lab.store.create()
        ids = [f"t{number}" for number in range(calls)]
        chat.append("assistant", [call(tool_id) for tool_id in ids])
        chat.append("user", [result(tool_id, "needle") for tool_id in ids])
        return steps_of(lambda: lab.store.search("needle", session=chat.id, tool="run"))

    steps(1)
    assert steps(160) < 6 * steps(40)


@pytest.mark.parametrize("indexed", [True, False])
def test_search_filters_select_hits(lab, indexed):
    store = lab.store
    lead = store.create("lead", metadata={"project": "web"})
    child = store.create("child", parent="lead", metadata={"project": "api"})
    grandchild = store.create("grandchild", parent="child")
    store.create("other").append("user", "needle")
    lead.append("user", "needle")
    lead.append("assistant", [text("needle"), call("t1", command="needle")])
    lead.append("user", [result("t1", "needle")])
    lead.append("assistant", [{**call("t2", path="needle"), "name": "read"}])
    lead.append("user", [result("t2", "needle")])
    child.append("user", "needle")
    grandchild.append("assistant", "needle")
    if indexed:
        store.index()

    def hits(**filters):
        return sorted(found(store, "needle", limit=3, **filters))

    all_of_lead = [("lead", seq) for seq in range(2, 7)]
    assert len(hits()) == 8
    assert hits(session="lead") == all_of_lead
    assert hits(session="nobody") == []
    assert hits(family="lead") == [("child", 2), ("grandchild", 1), *all_of_lead]
    assert hits(family="child") == [("child", 2), ("grandchild", 1)]
    assert hits(family="child", session="grandchild") == [("grandchild", 1)]
    assert hits(where={"project": "web"}) == all_of_lead
    assert hits(where={"project": "none"}) == []
    assert hits(session="lead", role="user") == [("lead", 2)]
    assert hits(role="assistant") == [("grandchild", 1), ("lead", 3), ("lead", 5)]
    assert hits(role="tool") == [("lead", 4), ("lead", 6)]
    assert hits(tool="run") == [("lead", 3), ("lead", 4)]
    assert hits(tool="read", role="tool") == [("lead", 6)]
    assert hits(tool="write") == []
    moment = datetime.fromtimestamp(lead.message(4).recorded_at / 1000, UTC)
    early, late = hits(session="lead", until=moment), hits(session="lead", since=moment)
    assert (early, late) == (all_of_lead[:2], all_of_lead[2:])
    assert hits(session="lead", since=moment, until=moment + timedelta(milliseconds=1)) == [
        ("lead", 4)
    ]


@pytest.mark.parametrize("indexed", [True, False])
def test_hits_come_in_order_and_in_pages(lab, indexed):
    store = lab.store
    chats = [store.create(name) for name in "abc"]
    for number in range(12):
        chats[number % 3].append("user", "needle " * (1 + number % 4) + "hay " * 10)
    if indexed:
        store.index()
    written = [(name, seq) for seq in range(1, 5) for name in "abc"]
    for limit in (1, 5, 12):
        assert found(store, "needle", order="oldest", limit=limit) == written
        assert found(store, "needle", order="newest", limit=limit) == written[::-1]
        assert len(store.search("needle", limit=limit)) == limit
        best = found(store, "needle", limit=limit)
        assert sorted(best) == sorted(written)
        assert best[0] == ("c", 4) or best == found(store, "needle", limit=12)
    scores = [hit.score for hit in store.search("needle", limit=12)]
    assert scores == sorted(scores, reverse=True)
    page = store.search("needle", limit=4)
    chats[0].append("user", "needle needle needle needle")
    following = store.search("needle", limit=4, after=page.next)
    assert not {hit.seq for hit in following} & {5}


@pytest.mark.parametrize("which", ["all", "one page"])
def test_hits_beyond_the_ranked_ones_come_by_time(lab, which, monkeypatch):
    monkeypatch.setattr("roocontext.store.search.hits.RANKED", 5)
    chat = lab.store.create()
    for number in range(12):
        chat.append("user", "needle " * (12 - number))
    hits = found(lab.store, "needle", limit=100 if which == "all" else 3)
    assert [seq for _, seq in hits] == [8, 9, 10, 11, 12, 7, 6, 5, 4, 3, 2, 1]


WRONG = [
    {"query": 5},
    {"session": "\0"},
    {"family": 3},
    {"role": "system"},
    {"among": "none"},
    {"order": "up"},
    {"tool": 5},
    {"limit": 0},
    {"limit": 1_001},
    {"context": -1},
    {"after": "x"},
    {"after": write_cursor("search, best", 1, "a", 1, -1)},
    {"after": write_cursor("search, best", 1, "a", 1, 1 << 40)},
    {"after": write_cursor("search, best", 1, "a", 1 << 70, 0)},
    {"after": write_cursor("search, newest", 1, "a", 1, 0)},
    {"after": 5},
    {"where": {"a": 5}},
    {"since": "yesterday"},
]


@pytest.mark.one_leg
@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_wrong_arguments_are_refused(lab, wrong):
    with pytest.raises((InvalidOption, ValueError)) as refused:
        lab.store.search(**{"query": "x", **wrong})
    assert type(refused.value).__module__ == "roocontext.errors"


@pytest.mark.every_leg
def test_erased_messages_are_not_found(lab):
    store = lab.store
    chat = store.create()
    for name in ("first", "second", "third"):
        chat.append("user", f"{name} needle-{name}")
    fork = chat.fork()
    assert store.index() == 6
    chat.redact(2)
    assert found(store, "second") == []
    assert indexed_rows(lab) == {(c.id, seq) for c in (chat, fork) for seq in (1, 3)}
    assert store.index() == 0
    assert len(found(store, "first")) == 2
    store.purge(chat.id)
    assert indexed_rows(lab) == {(fork.id, 1), (fork.id, 3)}
    assert found(store, "first") == [(fork.id, 1)]
    assert store.index() == 0


def indexed_rows(lab):
    return {tuple(row) for row in lab.sql("SELECT session_id, seq FROM search_rows")}


def unindexed(lab):
    """The sessions that the index may not hold as a whole."""
    rows = lab.sql("SELECT session_id FROM sessions WHERE unindexed = TRUE ORDER BY session_id")
    return [row[0] for row in rows]


@pytest.fixture
def settled(monkeypatch):
    """Each session is noted as indexed when it is, however few there are."""
    monkeypatch.setattr("roocontext.store.search.index.FEW", 1)


@pytest.mark.usefixtures("settled")
@pytest.mark.every_leg
def test_unindexed_messages_are_known_by_their_session(lab):
    store = lab.store
    changes = {
        "append": lambda chat: chat.append("user", "more"),
        "append_many": lambda chat: chat.append_many([NewMessage("user", "more")] * 2),
        "note": lambda chat: chat.set_title("a"),
        "rewind": lambda chat: chat.rewind(to=1),
        "condense": lambda chat: chat.commit(Plan.condense(chat.view(), [1], ".")),
        "redact": lambda chat: chat.redact(1),
    }
    for name in changes:
        texts = ("a first message, which is the longest", "a second one")
        store.create(name).append_many([NewMessage("user", one) for one in texts])
    assert unindexed(lab) == sorted(changes)
    assert store.index() == 2 * len(changes)
    assert unindexed(lab) == []
    for name, change in changes.items():
        chat = store.session(name)
        change(chat)
        assert unindexed(lab) == [name]
        store.index()
        assert unindexed(lab) == []
    fork = store.session("append").fork()
    store.create("new")
    assert unindexed(lab) == sorted([fork.id, "new"])
    store.purge(fork.id)
    assert unindexed(lab) == ["new"]
    store.drop_index()
    assert unindexed(lab) == sorted([*changes, "new"])


def test_few_sessions_are_not_noted_as_indexed(lab, monkeypatch):
    """Busy ones would set it again with their next append."""
    few = 6
    monkeypatch.setattr("roocontext.store.search.index.FEW", few)
    for number in range(few - 1):
        lab.store.create(f"{number:03}").append("user", "needle")
    lab.store.index()
    assert len(unindexed(lab)) == few - 1
    lab.store.create("last").append("user", "needle")
    assert lab.store.index() == 1
    assert unindexed(lab) == []
    assert len(found(lab.store, "needle")) == few


@pytest.mark.usefixtures("settled")
@pytest.mark.every_leg
def test_session_that_is_indexed_but_not_noted_as_such_is_found_once(lab):
    """A crash between the two transactions of a batch leaves it like this."""
    chat = written(lab, "fresh")
    before = indexed_rows(lab)
    lab.sql("UPDATE sessions SET unindexed = TRUE")
    assert seqs(lab.store.search("token")) == [1]
    assert lab.store.index() == 0
    assert unindexed(lab) == []
    assert indexed_rows(lab) == before
    chat.append("user", "token")
    assert seqs(lab.store.search("token")) == [1, len(CORPUS) + 1]


def test_erased_words_leave_the_file(tmp_path):
    path = tmp_path / "store.db"
    with Store.open(path) as store:
        chat = store.create()
        for number in range(50):
            chat.append("user", f"hunter{number}secret and more")
        store.index()
        chat.append("user", "later")
        store.index()
        assert b"hunter7secret" in path.read_bytes() + (tmp_path / "store.db-wal").read_bytes()
        assert chat.redact(8).erased
        assert b"hunter7secret" not in path.read_bytes()
        assert b"hunter8secret" in path.read_bytes()
        assert store.purge(chat.id).erased
        assert b"secret" not in path.read_bytes()


def test_index_is_dropped_and_made_again(lab):
    chat = written(lab, "fresh")
    before = indexed_rows(lab)
    assert len(before) == len(CORPUS)
    assert lab.store.index() == 0
    lab.store.drop_index()
    assert indexed_rows(lab) == set()
    assert seqs(lab.store.search("数据")) == [5]
    assert lab.store.index(anew=True) == len(CORPUS)
    assert lab.store.index(anew=True) == len(CORPUS)
    assert indexed_rows(lab) == before
    assert seqs(lab.store.search("数据", session=chat.id)) == [5]


def test_message_with_too_many_terms_is_still_found(lab):
    chat = lab.store.create()
    chat.append("user", "small needle")
    chat.append("user", " ".join(f"w{number:x}" for number in range(60_000)) + " needle")
    lab.store.index()
    assert seqs(lab.store.search("needle")) == [1, 2]
    assert seqs(lab.store.search("wea5f")) == [2]
    assert lab.sql("SELECT seq FROM search_rows WHERE terms IS NULL") in ([(2,)], [[2]])


@pytest.mark.parametrize("indexed", [True, False])
def test_damaged_message_stops_only_the_search_of_its_session(lab, indexed):
    for name in "abc":
        lab.store.create(name).append("user", "needle")
    if lab.engine == "postgres":
        lab.sql(UNSAFE, "ALTER TABLE entries DISABLE TRIGGER USER")
    else:  # not those of the index
        lab.sql("DROP TRIGGER entries_update")
    lab.sql("UPDATE entries SET content = '{' WHERE session_id = 'b'")
    if indexed:
        assert lab.store.index() == 3
    assert found(lab.store, "needle", session="a") == [("a", 1)]
    assert found(lab.store, "needle", session="c") == [("c", 1)]
    if indexed:  # else its text says that it cannot match
        with pytest.raises(HistoryCorrupt, match="'b'"):
            lab.store.search("needle")


@pytest.mark.parametrize("state", STATES)
def test_read_only_store_is_searched(lab, state):
    if lab.engine == "memory":
        return
    chat = written(lab, state)
    with Store.open(lab.url, read_only=True) as reader:
        for query in ("parser", "数据", "E0502", "库"):
            assert seqs(reader.search(query, session=chat.id)) == FINDS[query]
        if state != "fresh":
            with pytest.raises(StoreReadOnly):
                reader.index()


@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize(
    ("drops", "before", "later"),
    [((False, False), 300, 20), ((True, False, True), 0, 60)],
    ids=["index", "index and drop"],
)
def test_appends_continue_while_others_index_and_drop_the_index(lab, drops, before, later):
    store = lab.store
    chats = [store.create(name) for name in "ab"]
    for chat in chats:
        chat.append_many([NewMessage("user", f"needle {chat.id}{n}") for n in range(before)])

    def index(is_dropping):
        with Store.open(lab.url) as own:
            for _ in range(8 if is_dropping else 3):
                own.index()
                if is_dropping:
                    own.drop_index()

    with ThreadPoolExecutor(len(drops)) as threads:
        indexing = [threads.submit(index, one) for one in drops]
        for number in range(later):
            chats[number % 2].append("user", f"needle more{number}")
            assert store.search(f"more{number}")
        chats[0].redact(5)
    assert [one.exception() for one in indexing] == [None] * len(drops)
    last = before + later // 2
    expected = {(name, seq) for name in "ab" for seq in range(1, last + 1)} - {("a", 5)}
    assert set(found(store, "needle", limit=1_000)) == expected
    store.index()
    assert indexed_rows(lab) == expected
    assert set(found(store, "needle", limit=1_000)) == expected


WORDS = st.text(
    st.characters(categories=["L", "N", "So", "Cs", "P", "Zs", "Mn"]), min_size=1, max_size=8
)
ACTS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), WORDS, WORDS),
        st.tuples(st.just("append"), WORDS, WORDS),
        st.tuples(st.sampled_from(["index", "drop", "fork", "rewind"])),
        st.tuples(st.just("redact"), st.integers(0, 30)),
    ),
    min_size=1,
    max_size=14,
)


@pytest.fixture(scope="module")
def searched(leg, opened):
    """A store that holds no other tests' sessions, which would all be indexed again and again."""
    with opened(*leg) as lab:
        yield lab.store


@settings(max_examples=examples(12, long=40))
@given(acts=ACTS)
def test_search_during_writes_finds_appended_and_not_redacted_messages(searched, acts):
    """By its own rare words, and the same in every state of the index."""
    store = searched
    chat = store.create()
    held = {}
    for number, (act, *given_) in enumerate(acts):
        if act == "append":
            rare = f"rare{chat.id[-4:]}n{number}"
            seq = chat.append("user", f"{given_[0]} {rare} {given_[1]}").seq
            held[seq] = (rare, *given_)
        elif act == "index":
            store.index()
        elif act == "drop":
            store.drop_index()
        elif act == "fork":
            chat.fork()
        elif act == "rewind":
            chat.rewind(to=chat.head().seq // 2)
        elif held:
            seq = sorted(held)[given_[0] % len(held)]
            chat.redact(seq)
            assert not found(store, held.pop(seq)[0])
    for index in (False, True):
        if index:
            store.index()
        for seq, (rare, *words) in held.items():
            own = f'"{words[0]}" {rare} {words[1]}'.replace("*", " ")
            assert seq in seqs(store.search(rare, session=chat.id)), rare
            assert seq in seqs(store.search(own, session=chat.id)), own


def test_every_letter_and_symbol_is_the_same_to_each_engine(lab):
    every = [char for char in map(chr, range(0x110000)) if unicodedata.category(char)[0] in "LNS"]
    chosen = every[:: len(every) // examples(60)]
    groups = [chosen[start::6] for start in range(6)]  # a scan reads all messages of a session
    chats = [lab.store.create() for _ in groups]
    for chat, group in zip(chats, groups, strict=True):
        chat.append_many([NewMessage("user", f"{char}a {char}{char}") for char in group])

    def hits():
        return [
            [seqs(lab.store.search(f"{char}{char}", session=chat.id)) for char in group]
            for chat, group in zip(chats, groups, strict=True)
        ]

    scanned = hits()
    lab.store.index()
    assert hits() == scanned
    for group, each in zip(groups, scanned, strict=True):
        for number, (char, found_) in enumerate(zip(group, each, strict=True), 1):
            assert number in found_ or not terms_of(char), char


def test_search_of_visible_messages_does_not_read_the_hidden_ones(store):
    chat = store.create()
    chat.append("user", "needle")
    for _ in range(20):
        chat.append("user", "needle " + "word " * 20_000)
    chat.commit(Plan.condense(chat.view(), range(2, 22), "They were long."))
    store.index()
    search = partial(store.search, "needle", session=chat.id, among="visible")
    assert [hit.seq for hit in search()] == [1]
    tracemalloc.start()
    try:
        search()
        assert tracemalloc.get_traced_memory()[1] < 1_000_000  # the hidden ones have twice as much
    finally:
        tracemalloc.stop()
