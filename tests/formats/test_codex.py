"""Codex CLI's rollouts, imported: what the program would send next, and all that the file has."""

from pathlib import Path
from typing import Any

import pytest

from roocontext.errors import SummarySealed
from roocontext.formats.importers import codex
from roocontext.formats.player import play
from roocontext.formats.writing import SessionImport
from support.codex_rollouts import SUMMARY, item, line, said, write


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "rollout-2026-03-01T10-00-00-aa.jsonl"
    write(file, META)
    return file


META = line("session_meta", id="aa", cwd="/work", cli_version="0.9", git={"branch": "main"})
TURN = line("turn_context", model="gpt-5.2", cwd="/work")

ENVIRONMENT = "<environment_context>\n</environment_context>"
SEALED = {"type": "compaction", "encrypted_content": "x"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "ok"}


def talk(rows: str, make: Any = item) -> list[dict[str, Any]]:
    """Records in short: `one` is the user's, `>two` an answer, `#rules` the developer's.

    `@` is the environment, which the user tells, `*` an output, `!` the beginning of a turn, `-2` a
    rollback of two turns, `[one,=S]` a compaction that leaves `one` and the summary S, `$` a sealed
    compaction in it, and `~S` a compaction as earlier releases wrote it, without what it leaves.
    """
    made = []
    for row in rows.split():
        match row[0], row[1:]:
            case ">" | "#" as kind, text:
                made.append(make({">": "assistant", "#": "developer"}[kind], text))
            case "@", _:
                made.append(make("user", ENVIRONMENT))
            case "=", text:
                made.append(make("user", f"Summary: {text}"))
            case "$", _:
                made.append(SEALED)
            case "*", _:
                made.append(line("response_item", **OUTPUT))
            case "!", _:
                made.append(line("event_msg", type="task_started", turn_id="t"))
            case "-", turns:
                made.append(line("event_msg", type="thread_rolled_back", num_turns=int(turns)))
            case "~", text:
                made.append(line("compacted", message=text))
            case "[", items:
                new = talk(items[:-1].replace(",", " "), said)
                text = items[:-1].partition("=")[2]
                made.append(line("compacted", message=text, replacement_history=new))
            case _:
                made.append(make("user", row))
    return made


def add(path: Path, *records: Any) -> None:
    """Append records, and those in short."""
    for one in records:
        write(path, *(talk(one) if isinstance(one, str) else [one]))


def seen(store: Any, name: str = "codex:aa") -> str:
    """The view, in short: the first line of each text, and other items' types."""
    contents = [message.content for message in store.session(name).view().messages]
    texts = [
        content["content"][0]["text"].split("\n")[0] if "content" in content else content["type"]
        for content in contents
    ]
    short = " ".join(texts).replace("<environment_context>", "@").replace("Summary: ", "=")
    return short.replace("function_call_output", "*").replace("compaction", "$")


def taken(store: Any, path: Path, name: str = "codex:aa") -> str:
    """What is seen after an import without problems."""
    assert take(store, path).problems == ()
    return seen(store, name)


def take(store: Any, path: Path, **options: Any) -> SessionImport:
    """Import a rollout. A second import, which changes nothing, follows each."""
    (source,) = codex.sources(path)
    done = play(store, source, **options)
    assert play(store, source, **options).new == 0
    return done


def test_session_becomes_messages(store, path):
    call = {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": "c1"}
    used = {"input_tokens": 9, "cached_input_tokens": 4, "output_tokens": 2}
    info = {"total_token_usage": used, "last_token_usage": used}
    add(path, META, TURN, "@ hello", line("event_msg", type="user_message", message="hello"))
    add(path, line("response_item", type="reasoning", summary=[], encrypted_content="x"))
    add(path, line("response_item", **call), line("event_msg", type="token_count", info=info))
    add(path, line("response_item", **{**OUTPUT, "output": "a \0 b"}))
    add(path, line("response_item", type="ghost_snapshot"))
    add(path, line("world_state", full=True, state={}), ">done")
    done = take(store, path)
    assert (done.messages, done.problems) == (6, ())
    assert seen(store) == "@ hello reasoning function_call * done"
    chat = store.session("codex:aa")
    assert chat.info().metadata["branch"] == "main"
    ((one),) = chat.usage()
    assert (one.usage["input_tokens"], one.model) == (9, "gpt-5.2")
    assert chat.messages("openai-responses")[-1]["content"][0]["text"] == "done"
    add(path, "more")
    assert take(store, path).messages == 1


def test_compaction_replaces_the_history(store, path):
    add(path, "@ one >two [#permissions,one,=S] three")
    assert taken(store, path) == "permissions one =S three"
    (summary,) = [e for e in store.session("codex:aa").audit() if e.kind == "summary"]
    assert summary.content["content"][0]["text"] == "Summary: S"


NO_SUMMARY = "(no summary available)"
HISTORIES = {
    "compaction without a summary": [("one >two [one,$] three", "one $ three")],
    "second sealed compaction": [("one [one,$] two >three [one,two,$] four", "one two $ four")],
    "messages kept by two compactions": [("one >two [one,new,$] three ~S 4", "one new three S 4")],
    "messages kept by the compactions of two imports": [
        ("one >two [one,new,$] three", "one new $ three"),
        ("~S four", "one new three S four"),
    ],
    "rollback around a sealed compaction": [
        ("one >two three [one,three,$,#later] four", "one three $ later four"),
        ("-1 five", "one three $ five"),
        ("-2 six", "one six"),
    ],
    "old compaction keeps what the user said": [("@ one >2 three ~S >four", "@ one three S four")],
    "old compaction keeps only the first context": [
        ("#rules @ one >two #rules three ~", f"rules @ one three {NO_SUMMARY}")
    ],
    "rollback": [
        ("#rules @ one >two #rules three >four -1 five", "rules @ one two five"),
        ("-9", "rules @"),
    ],
    "rollback into the rows left by a compaction": [
        ("@ one >two three [#rules,one,three,=S] four >five -3 six", "rules one six"),
        ("-1 seven", "rules one seven"),
    ],
    "rollback of an old compaction, a turn of its own": [("@ 1 >2 three ~S four -2", "@ 1 three")],
    "rollback of all rows left by a compaction": [("one [one,=S] -9 * -1 two", "* two")],
    "rollback of nothing": [("one -0 >two", "one two")],
    "rollback of a turn with a compaction": [
        ("! @ one >two ! #rules three [one,=S] >four -1", "@ one two"),
        ("! three [one,three,=S] -1 ! five", "@ one two five"),
    ],
    "rollback of the turn after one with a compaction": [
        ("! @ one >two ! #rules three [one,$] ! four -2", "@ one two")
    ],
    "rollback of a turn that begins with a compaction": [
        ("! @ one >two ! #rules [one,=S] three -1", "@ one two")
    ],
    "rollback of a turn before a compaction": [("! @ 1 >2 ! #rules 3 ! [1,=S] -1", "@ 1 2")],
    "rollback of a turn after a compaction": [("! @ 1 >2 ! [1,=S] ! #rules 3 -1", "1 =S")],
    "rollback of one of two compactions": [("! 1 >2 ! [1,=S] ! 3 [1,3,=T] ! 4 -2", "1 =S")],
    "rollback of all turns and a compaction": [("! @ one >two ! [one,=S] ! three -9", "@")],
    "rollback of what was typed after a compaction": [
        ("! @ one ! #rules three [one,=S] more -1", "@ one rules three")
    ],
    "rollback of a part of a turn": [("! @ one ! [one,=S] two three -1", "one =S two")],
}


@pytest.mark.parametrize("stages", HISTORIES.values(), ids=HISTORIES)
def test_history_is_what_the_program_sends(store, path, stages):
    add(path, TURN)
    for rows, wanted in stages:
        add(path, rows)
        assert taken(store, path) == wanted
    assert store.session("codex:aa").verify().ok


def test_sealed_summary_is_kept(store, path):
    add(path, "one >two [$] three")
    assert taken(store, path) == "$ three"
    chat = store.session("codex:aa")
    (covering,) = [e for e in chat.audit() if e.kind == "covering"]
    assert covering.entry.details["sealed"]
    assert not [e for e in chat.audit() if e.kind == "rewind"]
    assert chat.uncover(covering.seq).returned == 2
    assert chat.verify().ok


def test_kept_messages_of_a_sealed_compaction_stay_or_are_companions(store, path):
    add(path, TURN, "one >two two [one,#permissions,two,$] three")
    assert taken(store, path) == "one permissions two $ three"
    chat = store.session("codex:aa")
    kinds = [e.kind for e in chat.audit() if e.visible]
    assert kinds == ["message", "companion", "companion", "message", "message"]
    items = chat.messages("openai-responses", model="gpt-5.2")
    assert [it.get("type") for it in items][-2:] == ["compaction", "message"]
    with pytest.raises(SummarySealed):
        chat.messages("anthropic")
    add(path, "four")
    assert (take(store, path).new, seen(store).split()[-1]) == (1, "four")


def test_kept_output_is_that_of_its_own_call(store, path):
    new = [{**OUTPUT, "call_id": "c2"}, SEALED]
    add(path, TURN, "*", line("response_item", **new[0]))
    add(path, line("compacted", message="", replacement_history=new))
    take(store, path)
    assert [m.content for m in store.session("codex:aa").view().messages] == new


def test_items_of_a_sealed_compaction_that_hides_nothing_are_messages(store, path):
    add(path, TURN, "[#permissions,one,$] >two")
    assert take(store, path).messages == 4
    assert seen(store) == "permissions one $ two"
    chat = store.session("codex:aa")
    assert [e.kind for e in chat.audit() if e.visible] == ["message"] * 4
    add(path, "three -1 four")
    assert taken(store, path) == "permissions one $ two four"
    assert chat.verify().ok


@pytest.mark.parametrize("odd", [{"type": "ghost_snapshot"}, {"type": "hologram"}])
def test_items_that_the_program_does_not_know_are_not_sent(store, path, odd):
    add(path, "one", line("response_item", **odd), item("system", "two"))
    assert taken(store, path) == "one"
    kept = store.session("codex:aa").notes("imported")
    assert odd in [note.content["record"].get("payload") for note in kept]
    add(path, line("compacted", message="S", replacement_history=[odd, *talk("=S", said)]))
    assert taken(store, path) == "=S"


AGENTS = "# AGENTS.md instructions for /work\n\n<INSTRUCTIONS>\nbe kind\n</INSTRUCTIONS>"


@pytest.mark.parametrize(
    ("texts", "is_turn"),
    [
        ([AGENTS], False),
        ([f"\n{AGENTS}\n", "<environment_context>\nx\n</environment_context>"], False),
        (["see", "<skill>\n<name>x</name>\n</skill>"], False),
        (["<ENVIRONMENT_CONTEXT>x</ENVIRONMENT_CONTEXT>"], False),
        (['<hook_prompt hook_run_id="a">go on</hook_prompt>'], False),
        (["# AGENTS.md is too long, shorten it"], True),
        (["<environment_context> is repeated, why?"], True),
        (["<skill>x</skill> and now?"], True),
    ],
)
def test_rollback_counts_what_the_user_typed(store, path, texts, is_turn):
    parts = [{"type": "input_text", "text": text} for text in texts]
    odd = line("response_item", type="message", role="user", content=parts)
    add(path, "one >two", odd, "-1")
    assert taken(store, path) == ("one two" if is_turn else "")


def test_summary_of_an_earlier_compaction_is_not_kept(store, path):
    first, second = (line("compacted", message=f"{SUMMARY}\n{text}") for text in "ST")
    add(path, "one", first, "two", second)
    assert taken(store, path) == f"one two {SUMMARY}"


def test_events_count_where_there_are_no_items(store, path):
    add(path, line("event_msg", type="user_message", message="hello"))
    add(path, line("event_msg", type="agent_message", message="yes"))
    assert taken(store, path) == "hello yes"
    add(path, "hello", {"type": "event_msg", "payload": None})
    assert taken(store, path) == "hello"


def test_file_without_envelopes_is_read(store, tmp_path):
    path = tmp_path / "rollout-old.jsonl"
    meta = {"id": "aa", "timestamp": "2025-05-01T00:00:00Z", "instructions": None, "git": {}}
    write(path, meta, *talk("one", said), {"record_type": "state"}, *talk(">two", said))
    assert taken(store, path) == "one two"


def test_thread_of_a_sub_agent_is_a_child(store, path, tmp_path):
    add(path, "one")
    take(store, path)
    other = tmp_path / "rollout-b.jsonl"
    spawn = {"subagent": {"thread_spawn": {"parent_thread_id": "aa", "depth": 1}}}
    add(other, line("session_meta", id="bb", source=spawn), "look")
    take(store, other)
    assert [one.session_id for one in store.session("codex:aa").children()] == ["codex:bb"]


def test_envelope_of_an_item_is_kept(store, path):
    write(path, {**item("user", "one"), "ordinal": 7})
    take(store, path)
    (entry,) = [one for one in store.session("codex:aa").audit() if one.kind == "message"]
    envelope = {"timestamp": "2026-03-01T10:00:00.500Z", "type": "response_item", "ordinal": 7}
    assert entry.entry.extra["record"] == envelope


def test_session_whose_id_was_removed_is_named_after_its_file(store, tmp_path):
    path = tmp_path / "rollout-x.jsonl"
    add(path, line("session_meta", id="REDACTED"), "one")
    assert take(store, path).session_id == "codex:rollout-x"


def ordered(first: int, *records: Any) -> list[dict[str, Any]]:
    flat = [one for it in records for one in (talk(it) if isinstance(it, str) else [it])]
    return [{**record, "ordinal": number} for number, record in enumerate(flat, first)]


def forked(name: str, base: str, end: int) -> dict[str, Any]:
    shared = {"thread_id": base, "end_ordinal_exclusive": end, "end_byte_offset": 1}
    return line("session_meta", id=name, forked_from_id=base, history_base=shared)


def test_fork_begins_with_the_shared_rows(store, tmp_path):
    first, second, third = (
        tmp_path / "sessions" / "2026" / "03" / day / f"rollout-2026-{name}.jsonl"
        for day, name in (("01", "aa"), ("02", "bb"), ("03", "cc"))
    )
    for path in (first, second, third):
        path.parent.mkdir(parents=True)
    write(first, *ordered(0, META, "one >1 2"))
    write(second, *ordered(3, forked("bb", "aa", 3), "two >2"))
    write(third, *ordered(5, forked("cc", "bb", 5), "three"))
    assert taken(store, second, "codex:bb") == "one 1 two 2"
    assert taken(store, third, "codex:cc") == "one 1 two three"
    assert store.session("codex:cc").info().metadata["forked_from"] == "bb"
    write(third, *ordered(7, ">3"))
    write(first, *ordered(4, item("assistant", "not shared")))
    assert take(store, third).new == 1
    assert seen(store, "codex:cc") == "one 1 two three 3"


def test_fork_of_a_missing_thread_is_reported(store, tmp_path):
    file = tmp_path / "rollout-2026-bb.jsonl"
    for name in ("aa", "../aa", "bb"):
        file.unlink(missing_ok=True)
        write(file, *ordered(3, forked("bb", name, 3), "two"))
        (problem,) = take(store, file).problems
        assert (problem.line, "history is missing" in problem.what) == (1, True)
    assert seen(store, "codex:bb") == "two"


def test_name_of_a_model_that_is_too_long_is_reported_and_left_out(store, path):
    add(path, line("turn_context", model="m" * 201, cwd="/work"), "hello >hi")
    (problem,) = {it.what for it in take(store, path).problems}
    assert problem == (
        "the name of a model, of 201 characters, is not valid; the message was imported without it"
    )
    assert [message.model for message in store.session("codex:aa").view().messages] == [None, None]


def test_item_without_a_role_is_kept_as_a_note(store, path):
    add(path, item("", "whose?"), "hello")
    done = take(store, path)
    assert (done.messages, done.failed, seen(store)) == (1, False, "hello")
    assert [problem.what for problem in done.problems] == ["role has 0 bytes"]


def rollout(path: Path, version: str) -> Path:
    file = path / "rollout.jsonl"
    file.unlink(missing_ok=True)
    write(file, line("session_meta", id="aa", cli_version=version))
    return file


def texts(store: Any) -> list[str]:
    return [one.content["content"][0]["text"] for one in store.session("codex:aa").view().messages]


def words(size: int, word: str) -> str:
    return (word * size)[:size]


def marked(text: str) -> tuple[int, str, int]:
    """The length before the mark, the mark, and the length after it."""
    before, tokens, after = text.split("\N{HORIZONTAL ELLIPSIS}")
    return len(before), tokens, len(after)


SEVERAL = [
    # The messages before a compaction, and the lengths of what is sent. A cut one: before the
    # mark, tokens, after it.
    ([40_000, 40_000], [40_000, 40_000]),
    ([5, 40_004, 40_000], [(20_000, 1, 20_000), 40_000]),
    ([5, 39_999, 40_002], [(19_998, 1, 19_998), 40_002]),
    ([5, 39_998, 39_995], [(2, 1, 2), 39_998, 39_995]),
    ([5, 80_000], [80_000]),
    ([48, 79_996], [(2, 11, 2), 79_996]),
    ([200_000], [(40_000, 30_000, 40_000)]),
]


@pytest.mark.parametrize(("sizes", "sent"), SEVERAL)
def test_newest_user_messages_are_kept_up_to_their_limit(store, tmp_path, sizes, sent):
    path = rollout(tmp_path, "0.77.0")
    add(path, item("user", "<environment_context>"))
    for size in sizes:
        add(path, item("user", words(size, "abc ")), ">yes")
    add(path, line("compacted", message=f"{SUMMARY}\nS"), "more")
    take(store, path)
    context, *found, summary, last = texts(store)
    assert (context, summary, last) == ("<environment_context>", f"{SUMMARY}\nS", "more")
    expected = [
        size if isinstance(size, int) else (size[0], f"{size[1]} tokens truncated", size[2])
        for size in sent
    ]
    assert [marked(text) if "truncated" in text else len(text) for text in found] == expected
    add(path, "and")
    assert take(store, path).new == 1


def test_characters_are_not_cut(store, tmp_path):
    path = rollout(tmp_path, "0.64.0")
    add(path, "\xe9\u20ac\U0001f600" * 9_000 + " " + "\xfc" * 30_000 + " ~S")
    take(store, path)
    assert marked(texts(store)[0]) == (3_333, "15250 tokens truncated", 3_333)


def test_shortened_message_is_shortened_again_and_rolled_back(store, tmp_path):
    path = rollout(tmp_path, "0.95.0")
    long = [item("user", words(n, w)) for n, w in ((50_000, "a "), (50_000, "d "), (30_006, "g "))]
    first, second = (line("compacted", message=f"{SUMMARY}\n{text}") for text in "ST")
    add(path, *long[:2], first, long[2], second)
    take(store, path)
    cut, later, summary = texts(store)
    assert (marked(cut)[1], len(later), summary[-1]) == ("2 tokens truncated", 30_006, "T")
    add(path, "-2 six")
    take(store, path)
    assert texts(store) == [cut, "six"]


def test_message_with_an_image_keeps_its_text(store, tmp_path):
    image = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
    begin, end, look = (
        {"type": "input_text", "text": text}
        for text in ("<image name=[Image #1]>", "</image>", "look")
    )
    path = rollout(tmp_path, "0.95.0")
    content = {**said("user", ""), "content": [begin, image, end, look, look]}
    add(path, "one", line("response_item", **content), line("compacted", message=f"{SUMMARY}\nS"))
    take(store, path)
    assert texts(store)[:2] == ["one", "looklook"]


def diverged(store: Any, path: Path) -> None:
    """A fork `codex:aa~2` of one, three and four, with a note, of a session of one and two."""
    add(path, "one", TURN, ">two")
    take(store, path)
    store.session("codex:aa").append("user", "mine")
    path.write_text("")
    add(path, META, "one", TURN, ">three four")
    done = take(store, path, on_conflict="fork")
    assert (done.session_id, done.messages) == ("codex:aa~2", 2)


def test_fork_has_the_notes_that_the_session_had_after_its_end(store, path):
    diverged(store, path)
    kinds = [note.content["kind"] for note in store.session("codex:aa~2").notes("imported")]
    assert sorted(kinds) == ["session_meta", "turn_context"]
    assert take(store, path).status == "unchanged"


def test_message_that_a_fork_has_on_another_branch_is_not_left_out(store, path):
    diverged(store, path)
    path.write_text("")
    add(path, META, "one >six four")
    assert take(store, path).messages == 2
    assert seen(store, "codex:aa~2") == "one six four"
