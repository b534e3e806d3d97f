"""The operations that read: pages, versions, views, documents."""

import json
from typing import Any

import pytest

from roocontext import NewMessage, Plan, Rewind
from roocontext.log.encoding import decode
from roocontext.log.spans import spans_of
from roocontext.log.values import as_json
from roocontext.reports.history import audit_rows, difference, message_rows
from roocontext.reports.tree import tree_of
from roocontext.reports.why import why
from roocontext.store.reading import audit
from support.dialogue import call, fill, result, seqs, text


def through_json(document: Any) -> Any:
    return json.loads(json.dumps(as_json(document)))


@pytest.fixture
def condensed(talk):
    """A session of 8 messages, of which 1 to 4 are hidden by summary 9."""
    kept = fill(talk.chat, 8)
    talk.chat.commit(Plan.condense(talk.chat.view(), kept[:4], "S"))
    return talk


class TestSessions:
    def test_page_continues_where_the_one_before_ended(self, web):
        parent = web.store.create().id
        children = [web.store.create(parent=parent).id for _ in range(3)]
        found, after = [], ""
        while True:
            page = web.client.get(f"/api/v1/sessions?parent={parent}&limit=2{after}").json
            found += [row["session_id"] for row in page["sessions"]]
            if page["next"] is None:
                break
            after = f"&after={page['next']}"
        assert sorted(found) == sorted(children)

    def test_metadata_selects_sessions(self, web):
        one = web.store.create(metadata={"tool": "a b"})
        web.store.create(metadata={"tool": "c"})
        page = web.client.get("/api/v1/sessions?where=tool%3Da%20b").json
        assert [row["session_id"] for row in page["sessions"]] == [one.id]

    @pytest.mark.parametrize(
        "query",
        ["after=x", "limit=0", "limit=1001", "where=x", "since=yesterday", "since=2026-01-01"],
    )
    def test_value_that_makes_no_sense_is_refused(self, web, query):
        assert web.client.get(f"/api/v1/sessions?{query}").status == 400


class TestSession:
    def test_it_has_the_title_the_sizes_and_the_turn(self, condensed):
        condensed.chat.set_title("Übung")
        found = condensed.get().json
        info, stats = condensed.chat.info(), condensed.chat.stats()
        assert (found["title"], found["waits_for"]) == ("Übung", "user")
        assert found["hidden_messages"] == stats.hidden_messages == 4
        assert found["head_seq"] == info.head_seq

    def test_unknown_one_is_not_found(self, web):
        for name in ("none", "%00", "%ED%A0%80", "%FF", "a" * 2000):
            answer = web.client.get(f"/api/v1/sessions/{name}")
            assert (answer.status, answer.json["type"]) == (404, "urn:roocontext:session-not-found")

    def test_any_id_can_be_a_part_of_the_path(self, web):
        for name in ("a/b?c#d", "codex:01 9", "日本%2F", '"<script>', "..x", "+&="):
            assert web.of(web.store.create(name)).get().json["session_id"] == name


class TestHead:
    def test_it_is_the_version_that_if_match_takes(self, condensed):
        head, answer = condensed.chat.head(), condensed.get("/head")
        known = {"session_id": condensed.chat.id, "head_seq": 9, "seq": head.seq, "hash": head.hash}
        assert (answer.json, answer.etag) == (known, '"9"')

    def test_note_does_not_change_it(self, condensed):
        before = condensed.get("/head").etag
        condensed.chat.set_title("new")
        answer = condensed.get("/head", if_none_match=before)
        assert (answer.status, answer.etag) == (200, before)
        assert answer.json["hash"] == condensed.chat.head().hash


class TestVersions:
    PATHS = ("", "/entries", "/entries/1", "/entries/1/content", "/view", "/pins", "/timeline")

    @pytest.mark.parametrize("path", PATHS)
    def test_known_version_is_not_sent_again(self, condensed, path):
        answer = condensed.get(path)
        head = condensed.chat.head()
        assert answer.etag == f'"{head.seq}-{head.hash[:16]}"'
        for known in (answer.etag, f"W/{answer.etag}", f'"x", {answer.etag}', "*"):
            again = condensed.get(path, if_none_match=known)
            assert (again.status, again.body, again.etag) == (304, b"", answer.etag)
        assert condensed.get(path, if_none_match='"x"').status == 200

    @pytest.mark.parametrize("path", PATHS)
    def test_every_entry_is_another_version(self, condensed, path):
        chat = condensed.chat
        for change in (
            lambda: chat.append("user", "more"),
            lambda: chat.set_title("T"),
            lambda: chat.pin(5),
            lambda: chat.rewind(6),
            lambda: chat.redact(1),
        ):
            before = condensed.get(path).etag
            change()
            answer = condensed.get(path, if_none_match=before)
            assert answer.status == 200
            assert answer.etag != before


class TestEntries:
    def test_rows_are_those_of_the_audit(self, condensed):
        condensed.chat.rewind(7)
        page = condensed.get("/entries").json
        assert page["entries"] == [through_json(row) for row in audit_rows(condensed.chat)]
        assert (page["previous"], page["next"]) == (None, None)

    def test_search_backwards_for_a_kind_reads_once_what_hides_what(self, talk, monkeypatch):
        talk.chat.append_many([NewMessage("user", "x")] * 260)
        computed = []
        monkeypatch.setattr(
            audit, "spans_of", lambda *given: computed.append(1) or spans_of(*given)
        )
        assert talk.get("/entries?kind=summary").json["entries"] == []
        assert len(computed) == 1

    def test_pages_backwards_and_forwards_have_each_entry_once(self, condensed):
        last = condensed.chat.info().last_seq
        found, before = [], ""
        while before is not None:
            page = condensed.get(f"/entries?limit=4{before}").json
            found = [row["seq"] for row in page["entries"]] + found
            before = page["previous"] and f"&before={page['previous']}"
        assert found == [*range(1, last + 1)]
        found, after = [], 0
        while after is not None:
            page = condensed.get(f"/entries?limit=4&after={after}").json
            found += [row["seq"] for row in page["entries"]]
            after = page["next"]
        assert found == [*range(1, last + 1)]

    def test_kind_role_and_state_select(self, condensed):
        fill(condensed.chat, 2)
        condensed.chat.rewind(10)

        def found(query):
            return [row["seq"] for row in condensed.get(f"/entries?{query}").json["entries"]]

        assert found("kind=summary&kind=rewind") == [9, 12]
        assert found("role=assistant&limit=2") == [8, 11]
        assert found("role=assistant&limit=2&after=0") == [2, 4]
        assert (found("state=hidden"), found("state=rewound")) == ([1, 2, 3, 4], [11])
        assert found("state=rewound&state=hidden&before=4") == [1, 2, 3]

    def test_unknown_kind_is_refused(self, condensed):
        assert condensed.get("/entries?kind=typo").status == 400

    def test_empty_page_says_what_is_on_either_side_of_it(self, condensed):
        last = condensed.chat.info().last_seq
        page = condensed.get("/entries?after=500").json
        assert page == {"entries": [], "previous": last + 1, "next": None}
        page = condensed.get("/entries?before=1").json
        assert page == {"entries": [], "previous": None, "next": 0}
        page = condensed.get("/entries?kind=rewind").json
        assert page == {"entries": [], "previous": None, "next": None}

    @pytest.mark.parametrize("query", ["after=1&before=5", "limit=x", "after=1&after=2", "state=x"])
    def test_query_that_contradicts_itself_is_refused(self, condensed, query):
        assert condensed.get(f"/entries?{query}").status == 400


class TestEntry:
    def test_it_is_a_row_of_the_audit(self, condensed):
        (row,) = [row for row in audit_rows(condensed.chat) if row.seq == 2]
        assert condensed.get("/entries/2").json == through_json(row)

    def test_what_hides_it_is_explained(self, condensed):
        assert condensed.get("/entries/2/why").json == through_json(why(condensed.chat, 2))

    @pytest.mark.parametrize(
        "path",
        [
            "/entries/0",
            "/entries/500",
            "/entries/500/content",
            pytest.param(f"/entries/{'9' * 5_000}", id="more digits than Python reads"),
        ],
    )
    def test_one_that_does_not_exist_is_not_found(self, condensed, path):
        assert condensed.get(path).status in (400, 404)
        assert condensed.get(path).status == 404 or path == "/entries/0"


class TestMessage:
    def test_newest_live_message_of_an_id_is_found(self, talk):
        for _ in range(3):
            talk.chat.append("user", "x", message_id="m 1")
        talk.chat.rewind(2)
        assert talk.get("/message?message_id=m%201").json["seq"] == 2
        talk.chat.rewind(0)
        assert talk.get("/message?message_id=m%201").json["seq"] == 3
        assert talk.get("/message?message_id=other").status == 404
        assert (talk.get("/message?message_id=").status, talk.get("/message").status) == (422, 400)


class TestNotes:
    def test_notes_of_a_kind_are_read_in_pages(self, talk):
        fill(talk.chat, 2)
        for number in range(5):
            talk.chat.note("build", {"n": number}, target=1 + number % 2)
        talk.chat.note("other", {})

        def found(query):
            page = talk.get(f"/notes?note=build&{query}").json
            return [row["content"]["n"] for row in page["notes"]], page["next"]

        assert found("limit=3") == ([0, 1, 2], 5)
        assert found("limit=3&after=5") == ([3, 4], None)
        assert found("target=2") == ([1, 3], None)
        assert found("newest=true") == ([3, 4], None)
        assert found("newest=true&target=1") == ([4], None)
        assert found("as_of=4") == ([0, 1], None)
        assert talk.get("/notes?note=none").json["notes"] == []
        row = talk.get("/notes?note=build&content=text&limit=1").json["notes"][0]
        assert row["content_json"] == '{"n":0}'
        assert talk.get("/notes").status == 400

    def test_page_reads_only_its_own_notes(self, talk, monkeypatch):
        contents = []

        def recorded(content):
            contents.append(content)
            return decode(content)

        for number in range(9):
            talk.chat.note("build", {"n": number})
        monkeypatch.setattr("roocontext.store.reading.notes.decode", recorded)
        for query in ("limit=2", "limit=2&after=5", "newest=true"):
            assert talk.get(f"/notes?note=build&{query}").status == 200
        assert contents == ['{"n":0}', '{"n":1}', '{"n":5}', '{"n":6}', '{"n":8}']


class TestFrame:
    def test_it_is_the_newest_or_that_of_a_moment(self, talk):
        assert talk.get("/frame").json == {"session_id": talk.chat.id, "frame": None}
        talk.chat.append("user", "hello")
        talk.chat.request(system="one", tools=[{"name": "t", "input_schema": {}}])
        talk.chat.request(system="two")
        found = talk.get("/frame").json["frame"]
        assert found == {"system": "two", "tools": [{"name": "t", "input_schema": {}}]}
        assert talk.get("/frame?as_of=2").json["frame"]["system"] == "one"
        assert talk.get("/frame?as_of=1").json["frame"] is None
        assert json.loads(talk.get("/frame?content=text").json["frame_json"]) == found


class TestTokens:
    def test_view_is_counted_now_and_then(self, condensed):
        for rest, options in (("", {}), ("&as_of=8", {"as_of": 8}), ("&after=6", {"after": 6})):
            found = condensed.get(f"/tokens?counter=o200k_base{rest}").json
            assert found["tokens"] == condensed.chat.tokens("o200k_base", **options)
        assert (found["counter"], found["exact"]) == ("o200k_base", True)
        answer = condensed.get("/tokens?counter=none")
        assert (answer.status, answer.json["type"]) == (400, "urn:roocontext:unknown-plugin")


class TestPins:
    def test_pins_of_a_moment(self, condensed):
        seq = condensed.chat.pin(6).seq
        condensed.chat.unpin(6)
        assert condensed.get("/pins").json["pins"] == []
        assert condensed.get(f"/pins?as_of={seq}").json["pins"] == [6]


class TestPurged:
    def test_receipts_are_listed(self, web):
        chat = web.store.create("to be purged")
        fill(chat, 2)
        web.store.purge(chat.id)
        page = web.client.get("/api/v1/purged?text=TO%20BE&limit=5").json
        assert [(row["session_id"], row["messages"]) for row in page["purged"]] == [(chat.id, 2)]
        assert page["sessions"] == []
        assert web.client.get("/api/v1/purged?after=x").status == 400


class TestView:
    def test_it_is_what_the_model_sees(self, condensed):
        view = condensed.chat.view()
        found = condensed.get("/view").json
        assert found["messages"] == [through_json(row) for row in message_rows(view.messages)]
        assert (found["seq"], found["head_seq"]) == (view.seq, view.head_seq)

    def test_it_is_what_the_model_saw(self, condensed):
        for seq in range(1, 10):
            found = condensed.get(f"/view?as_of={seq}").json
            assert seqs_of(found) == seqs(condensed.chat.view(as_of=seq))

    def test_part_of_it(self, condensed):
        assert seqs_of(condensed.get("/view?last=2").json) == [7, 8]
        assert seqs_of(condensed.get("/view?last=2&before=7").json) == [5, 6]
        assert seqs_of(condensed.get("/view?limit=2").json) == [9, 5]
        assert seqs_of(condensed.get("/view?limit=2&after=9").json) == [5, 6]
        assert condensed.get("/view?last=2&limit=2").status == 400

    def test_time_needs_its_offset(self, condensed):
        assert condensed.get("/view?as_of=2000-01-01T00:00:00Z").json["messages"] == []
        for wrong in ("2000-01-01T00:00:00", "yesterday", "-1", str(1 << 63)):
            problem = condensed.get(f"/view?as_of={wrong}").json
            assert (problem["status"], problem["name"]) == (400, "as_of"), wrong
            assert "such as `2026-01-31T09:30:00Z`." in problem["detail"]


class TestMessages:
    @pytest.mark.parametrize("form", ["anthropic", "openai", "openai-responses", "gemini"])
    def test_they_are_what_the_provider_accepts(self, talk, form):
        chat = talk.chat
        chat.append("user", "Hello")
        chat.append("assistant", [text("I look"), call("t1")])
        chat.append("user", [result("t1", "files")])
        chat.append("user", [result("gone", "late")])
        found = talk.get(f"/messages?form={form}").json
        assert found["messages"] == through_json(chat.messages(form))
        assert [row["seq"] for row in found["repairs"]] == [
            repair.seq for repair in chat.repairs(form)
        ]
        assert found["repairs"]


class TestPending:
    def test_calls_that_wait_are_listed(self, talk):
        talk.chat.append("user", "go")
        talk.chat.append("assistant", [call("t1"), call("t2")])
        talk.chat.begin((2, 1))
        found = talk.get("/pending").json
        assert found["waits_for"] == "tools"
        assert [(row["block"], row["begun"]) for row in found["pending"]] == [(0, False), (1, True)]
        texts = talk.get("/pending?content=text").json["pending"]
        assert texts[0]["input_json"] == '{"command":"ls"}'


class TestDiff:
    def test_it_is_what_entered_and_left_the_view(self, condensed):
        found = condensed.get("/diff?from=8&to=9").json
        assert found == through_json(difference(condensed.chat, 8, 9))
        left = [row["seq"] for row in found["left"]]
        assert (left, seqs_in(found["came"])) == ([1, 2, 3, 4], [9])
        assert condensed.get("/diff?to=9").status == 400


class TestTimeline:
    def test_it_has_the_branches(self, condensed):
        condensed.chat.rewind(6)
        whole = through_json(tree_of(condensed.chat))
        assert condensed.get("/timeline").json == whole | {"left_out": 0}

    @pytest.mark.parametrize("web", ["file"], indirect=True)
    def test_long_session_has_at_most_so_many_marks(self, talk):
        fill(talk.chat, 40)
        for number in range(260):
            head = talk.chat.head_seq()
            items = [Rewind(39 - number % 7), NewMessage("user", "again")]
            talk.chat.write_batch(items, expected_seq=head)
        tree = tree_of(talk.chat)
        marks = len(tree.stretches) + len(tree.hidings) + len(tree.rewinds)
        assert marks > 500
        for query, most in (("", 500), ("?marks=10", 10)):
            found = talk.get(f"/timeline{query}").json
            parts = [found[name] for name in ("stretches", "hidings", "rewinds")]
            assert sum(map(len, parts)) == most
            assert found["left_out"] == marks - most
            assert found["rewinds"] == through_json(tree.rewinds[-len(found["rewinds"]) :])
            assert max(part["hi"] - part["lo"] for part in found["stretches"]) >= 30
            assert [part["lo"] for part in found["stretches"]] == sorted(
                part["lo"] for part in found["stretches"]
            )
        assert talk.get("/timeline?marks=501").status == 400


class TestVerification:
    def test_log_that_continues_a_saved_head_is_ok(self, condensed):
        saved = condensed.chat.head()
        fill(condensed.chat, 1)
        query = f"saved_seq={saved.seq}&saved_hash={saved.hash}"
        assert condensed.get(f"/verification?{query}").json["ok"]
        query = f"saved_seq={saved.seq}&saved_hash={'0' * 64}"
        assert not condensed.get(f"/verification?{query}").json["ok"]
        assert condensed.get("/verification?saved_seq=1").status == 400


class TestUsage:
    def test_reported_usage_is_summed(self, web, talk):
        talk.chat.append("user", "hi")
        usage = {"input_tokens": 10, "output_tokens": 5}
        talk.chat.append("assistant", "ho", model="claude-sonnet-4-5", usage=usage)
        (model,) = talk.get("/usage").json["models"]
        assert (model["input"], model["output"]) == (10, 5)
        names = {row["name"] for row in web.client.get("/api/v1/usage?by=session").json["rows"]}
        assert talk.chat.id in names
        path = "/api/v1/usage?by=session&where=team%3D"
        talk.chat.set_metadata({"team": "parser"})
        mine, none = (web.client.get(path + team).json["rows"] for team in ("parser", "no-one"))
        assert ([row["name"] for row in mine], none) == ([talk.chat.id], [])
        assert talk.get("/context").json["reported"] == 15


class TestSearch:
    def test_hidden_messages_are_found(self, web, talk):
        talk.chat.append("user", "the zyzzyva sings")
        fill(talk.chat, 3)
        talk.chat.commit(Plan.condense(talk.chat.view(), [1], "S"))
        found = web.client.get("/api/v1/search?q=zyzzyva&among=hidden").json
        assert [(hit["session_id"], hit["seq"]) for hit in found["hits"]] == [(talk.chat.id, 1)]
        assert web.client.get("/api/v1/search?q=zyzzyva&session=none").json["hits"] == []
        assert web.client.get("/api/v1/search").status == 400


class TestExport:
    def test_jsonl_is_the_log_itself(self, web, condensed):
        answer = condensed.get("/export")
        assert answer.headers["content-type"] == "application/jsonl"
        assert answer.headers["content-disposition"].startswith("attachment; filename=")
        rows = [json.loads(line) for line in answer.body.splitlines()]
        assert rows[0]["session_id"] == condensed.chat.id

    @pytest.mark.parametrize(
        "to", ["markdown", "html", "anthropic", "openai", "gemini", "bedrock-converse"]
    )
    def test_other_formats(self, condensed, to):
        answer = condensed.get(f"/export?to={to}")
        assert answer.status == 200
        assert b"message 7" in answer.body

    def test_name_never_breaks_the_header(self, web):
        chat = web.store.create('a"\r\nx: y/../日')
        chat.append("user", "x")
        answer = web.of(chat).get("/export")
        assert answer.headers["content-disposition"] == 'attachment; filename="a___x__y_..__.jsonl"'

    def test_several_files_cannot_be_sent(self, condensed):
        assert condensed.get("/export?to=roo").status == 400


def seqs_of(found):
    return seqs_in(found["messages"])


def seqs_in(rows):
    return [row["seq"] for row in rows]
