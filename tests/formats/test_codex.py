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


ENVIRONMENT = item("user", "<environment_context>\n</environment_context>")
PERMISSIONS = item("developer", "permissions")
SEALED = {"type": "compaction", "encrypted_content": "x"}
TURN = line("turn_context", model="gpt-5.2", cwd="/work")


def take(store: Any, path: Path, **options: Any) -> SessionImport:
    """Import a rollout. A second import, which changes nothing, follows each."""
    (source,) = codex.sources(path)
    done = play(store, source, **options)
    assert play(store, source, **options).new == 0
    return done


def seen(store: Any, name: str = "codex:aa") -> list[str]:
    def short(content: Any) -> str:
        if "content" in content:
            return content["content"][0]["text"].split("\n")[0]
        return content["type"]

    return [short(message.content) for message in store.session(name).view().messages]


def taken(store: Any, path: Path) -> list[str]:
    """What is seen after an import without problems."""
    assert take(store, path).problems == ()
    return seen(store)


def compacted(*history: Any, message: str = "") -> dict[str, Any]:
    """A compaction that leaves these items."""
    return line("compacted", message=message, replacement_history=history)


def rollback(turns: int) -> dict[str, Any]:
    return line("event_msg", type="thread_rolled_back", num_turns=turns)


def test_session_becomes_messages(store, path):
    call = {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": "c1"}
    output = {"type": "function_call_output", "call_id": "c1", "output": "a \0 b"}
    used = {"input_tokens": 9, "cached_input_tokens": 4, "output_tokens": 2}
    info = {"total_token_usage": used, "last_token_usage": used}
    write(path, META, TURN, ENVIRONMENT, item("user", "hello"))
    write(path, line("event_msg", type="user_message", message="hello"))
    write(path, line("response_item", type="reasoning", summary=[], encrypted_content="x"))
    write(path, line("response_item", **call), line("event_msg", type="token_count", info=info))
    write(path, line("response_item", **output), line("response_item", type="ghost_snapshot"))
    write(path, line("world_state", full=True, state={}), item("assistant", "done"))
    done = take(store, path)
    assert (done.messages, done.problems) == (6, ())
    assert seen(store) == [
        *("<environment_context>", "hello", "reasoning", "function_call"),
        *("function_call_output", "done"),
    ]
    chat = store.session("codex:aa")
    assert chat.info().metadata["branch"] == "main"
    ((one),) = chat.usage()
    assert (one.usage["input_tokens"], one.model) == (9, "gpt-5.2")
    assert chat.messages("openai-responses")[-1]["content"][0]["text"] == "done"
    write(path, item("user", "more"))
    assert take(store, path).messages == 1


def test_compaction_replaces_the_history(store, path):
    write(path, ENVIRONMENT, item("user", "one"), item("assistant", "two"))
    new = [said("developer", "permissions"), said("user", "one"), said("user", "Summary: S")]
    write(path, compacted(*new, message="S"), item("user", "three"))
    assert taken(store, path) == ["permissions", "one", "Summary: S", "three"]
    (summary,) = [e for e in store.session("codex:aa").audit() if e.kind == "summary"]
    assert summary.content["content"][0]["text"] == "Summary: S"


def test_sealed_summary_is_kept(store, path):
    write(path, item("user", "one"), item("assistant", "two"))
    write(path, compacted(SEALED), item("user", "three"))
    assert taken(store, path) == ["compaction", "three"]
    chat = store.session("codex:aa")
    (covering,) = [e for e in chat.audit() if e.kind == "covering"]
    assert covering.entry.details["sealed"]
    assert not [e for e in chat.audit() if e.kind == "rewind"]
    assert chat.uncover(covering.seq).returned == 2
    assert chat.verify().ok


def test_kept_messages_of_a_sealed_compaction_stay_or_are_companions(store, path):
    write(path, TURN, item("user", "one"), item("assistant", "two"), item("user", "two"))
    new = [said("user", "one"), said("developer", "permissions"), said("user", "two"), SEALED]
    write(path, compacted(*new), item("user", "three"))
    assert taken(store, path) == ["one", "permissions", "two", "compaction", "three"]
    chat = store.session("codex:aa")
    kinds = [e.kind for e in chat.audit() if e.visible]
    assert kinds == ["message", "companion", "companion", "message", "message"]
    items = chat.messages("openai-responses", model="gpt-5.2")
    assert [it.get("type") for it in items][-2:] == ["compaction", "message"]
    with pytest.raises(SummarySealed):
        chat.messages("anthropic")
    write(path, item("user", "four"))
    assert (take(store, path).new, seen(store)[-1]) == (1, "four")


def test_kept_output_is_that_of_its_own_call(store, path):
    outputs = [
        {"type": "function_call_output", "call_id": call, "output": "ok"} for call in ("c1", "c2")
    ]
    write(path, TURN, *(line("response_item", **output) for output in outputs))
    new = [outputs[1], SEALED]
    write(path, compacted(*new))
    take(store, path)
    assert [m.content for m in store.session("codex:aa").view().messages] == new


@pytest.mark.parametrize("again", [False, True], ids=["at once", "in two imports"])
def test_messages_that_a_sealed_compaction_kept_are_kept_by_a_later_one(store, path, again):
    write(path, TURN, item("user", "one"), item("assistant", "two"))
    new = [said("user", "one"), said("user", "new"), SEALED]
    write(path, compacted(*new), item("user", "three"))
    if again:
        take(store, path)
    write(path, line("compacted", message="S"), item("user", "four"))
    assert taken(store, path) == ["one", "new", "three", "S", "four"]


def test_rollback_around_a_sealed_compaction_is_followed(store, path):
    write(path, TURN, item("user", "one"), item("assistant", "two"), item("user", "three"))
    new = [said("user", "one"), said("user", "three"), SEALED, said("developer", "later")]
    write(path, compacted(*new), item("user", "four"))
    assert taken(store, path) == ["one", "three", "compaction", "later", "four"]
    write(path, rollback(1), item("user", "five"))
    assert taken(store, path) == ["one", "three", "compaction", "five"]
    write(path, rollback(2), item("user", "six"))
    assert taken(store, path) == ["one", "six"]
    assert store.session("codex:aa").verify().ok


def test_second_sealed_compaction_replaces_the_first(store, path):
    write(path, TURN, item("user", "one"))
    write(path, compacted(said("user", "one"), SEALED))
    write(path, item("user", "two"), item("assistant", "three"))
    new = [said("user", "one"), said("user", "two"), {**SEALED, "encrypted_content": "y"}]
    write(path, compacted(*new), item("user", "four"))
    assert taken(store, path) == ["one", "two", "compaction", "four"]


def test_items_of_a_sealed_compaction_that_hides_nothing_are_messages(store, path):
    kept = [said("developer", "permissions"), said("user", "one"), SEALED]
    write(path, TURN, compacted(*kept))
    write(path, item("assistant", "two"))
    assert take(store, path).messages == 4
    assert seen(store) == ["permissions", "one", "compaction", "two"]
    chat = store.session("codex:aa")
    assert [e.kind for e in chat.audit() if e.visible] == ["message"] * 4
    write(path, item("user", "three"), rollback(1), item("user", "four"))
    assert taken(store, path)[2:] == ["compaction", "two", "four"]
    assert chat.verify().ok


def test_compaction_without_a_summary_keeps_its_items(store, path):
    write(path, item("user", "one"), item("assistant", "two"))
    write(path, compacted(said("user", "one"), SEALED), item("user", "three"))
    assert taken(store, path) == ["one", "compaction", "three"]


def test_old_compaction_keeps_what_the_user_said(store, path):
    write(path, ENVIRONMENT, item("user", "one"), item("assistant", "two"), item("user", "three"))
    write(path, line("compacted", message="S"), item("assistant", "four"))
    assert taken(store, path) == ["<environment_context>", "one", "three", "S", "four"]


def test_rollback_becomes_a_rewind(store, path):
    write(path, PERMISSIONS, ENVIRONMENT, item("user", "one"), item("assistant", "two"))
    write(path, PERMISSIONS, item("user", "three"), item("assistant", "four"))
    write(path, rollback(1), item("user", "five"))
    assert taken(store, path) == ["permissions", "<environment_context>", "one", "two", "five"]
    write(path, rollback(9))
    assert taken(store, path) == ["permissions", "<environment_context>"]


AGENTS = "# AGENTS.md instructions for /work\n\n<INSTRUCTIONS>\nbe kind\n</INSTRUCTIONS>"
HOOK = '<hook_prompt hook_run_id="a">go on</hook_prompt>'


@pytest.mark.parametrize(
    ("texts", "is_turn"),
    [
        ([AGENTS], False),
        ([f"\n{AGENTS}\n", "<environment_context>\nx\n</environment_context>"], False),
        (["see", "<skill>\n<name>x</name>\n</skill>"], False),
        (["<ENVIRONMENT_CONTEXT>x</ENVIRONMENT_CONTEXT>"], False),
        ([HOOK], False),
        (["# AGENTS.md is too long, shorten it"], True),
        (["<environment_context> is repeated, why?"], True),
        (["<skill>x</skill> and now?"], True),
    ],
)
def test_rollback_counts_what_the_user_typed(store, path, texts, is_turn):
    parts = [{"type": "input_text", "text": text} for text in texts]
    odd = line("response_item", type="message", role="user", content=parts)
    write(path, item("user", "one"), item("assistant", "two"), odd, rollback(1))
    assert taken(store, path) == (["one", "two"] if is_turn else [])


def test_file_without_envelopes_is_read(store, tmp_path):
    path = tmp_path / "rollout-old.jsonl"
    meta = {"id": "aa", "timestamp": "2025-05-01T00:00:00Z", "instructions": None, "git": {}}
    write(path, meta, said("user", "one"), {"record_type": "state"}, said("assistant", "two"))
    assert taken(store, path) == ["one", "two"]


def test_thread_of_a_sub_agent_is_a_child(store, path, tmp_path):
    write(path, item("user", "one"))
    take(store, path)
    other = tmp_path / "rollout-b.jsonl"
    spawn = {"subagent": {"thread_spawn": {"parent_thread_id": "aa", "depth": 1}}}
    write(other, line("session_meta", id="bb", source=spawn), item("user", "look"))
    take(store, other)
    assert [one.session_id for one in store.session("codex:aa").children()] == ["codex:bb"]


def test_rollback_into_the_rows_left_by_a_compaction_is_followed(store, path):
    write(path, ENVIRONMENT, item("user", "one"), item("assistant", "two"), item("user", "three"))
    new = [said("developer", "permissions"), said("user", "one"), said("user", "three"),
           said("user", "Summary: S")]  # fmt: skip
    write(path, compacted(*new, message="S"), item("user", "four"))
    write(path, item("assistant", "five"), rollback(3), item("user", "six"))
    assert taken(store, path) == ["permissions", "one", "six"]
    write(path, rollback(1), item("user", "seven"))
    assert taken(store, path) == ["permissions", "one", "seven"]


BEGUN = line("event_msg", type="task_started", turn_id="t")
NEW = compacted(said("user", "one"), said("user", "Summary: S"), message="S")
SEALED_NEW = compacted(said("user", "one"), {"type": "compaction", "encrypted_content": "x"})
FIRST_TURN = (BEGUN, ENVIRONMENT, item("user", "one"), item("assistant", "two"))
SECOND_TURN = (BEGUN, PERMISSIONS, item("user", "three"))
LEFT = ["<environment_context>", "one", "two"]
SUMMED_UP = ["one", "Summary: S"]


@pytest.mark.parametrize(
    ("later", "seen"),
    [
        ((*SECOND_TURN, NEW, item("assistant", "four"), rollback(1)), LEFT),
        ((*SECOND_TURN, SEALED_NEW, BEGUN, item("user", "four"), rollback(2)), LEFT),
        ((BEGUN, PERMISSIONS, NEW, item("user", "three"), rollback(1)), LEFT),
        ((*SECOND_TURN, BEGUN, NEW, rollback(1)), LEFT),
        ((BEGUN, NEW, *SECOND_TURN, rollback(1)), SUMMED_UP),
        ((BEGUN, NEW, *SECOND_TURN, NEW, BEGUN, item("user", "four"), rollback(2)), SUMMED_UP),
        ((BEGUN, NEW, *SECOND_TURN, rollback(9)), ["<environment_context>"]),
        ((*SECOND_TURN, NEW, rollback(1), *SECOND_TURN, NEW, rollback(1)), LEFT),
        ((*SECOND_TURN, NEW, item("user", "more"), rollback(1)), [*LEFT, "permissions", "three"]),
        ((BEGUN, NEW, item("user", "a"), item("user", "b"), rollback(1)), [*SUMMED_UP, "a"]),
    ],
    ids=[
        *("in the turn", "in a turn before", "before the prompt", "after the turn"),
        *("before the turn", "twice", "in the first turn", "again", "typed after it"),
        "of a part of the turn",
    ],
)
def test_rollback_undoes_the_compactions_of_its_turns(store, path, later, seen):
    write(path, *FIRST_TURN, *later)
    assert taken(store, path) == seen
    write(path, BEGUN, item("user", "five"))
    assert taken(store, path) == [*seen, "five"]


def test_rollback_after_an_old_compaction_is_followed(store, path):
    write(path, ENVIRONMENT, item("user", "one"), item("assistant", "two"), item("user", "three"))
    write(path, line("compacted", message="S"), item("user", "four"), rollback(2))
    assert taken(store, path) == ["<environment_context>", "one", "three"]  # the summary was a turn


def test_old_compaction_keeps_only_the_first_context(store, path):
    write(path, PERMISSIONS, ENVIRONMENT, item("user", "one"), item("assistant", "two"))
    write(path, PERMISSIONS, item("user", "three"), line("compacted", message=""))
    assert taken(store, path) == [
        *("permissions", "<environment_context>", "one", "three", "(no summary available)")
    ]


def test_rollback_of_all_rows_left_by_a_compaction_leaves_none(store, path):
    new = [said("user", "one"), said("user", "Summary: S")]
    write(path, item("user", "one"), compacted(*new, message="S"))
    output = {"type": "function_call_output", "call_id": "c1", "output": "late"}
    write(path, rollback(9), line("response_item", **output), rollback(1), item("user", "two"))
    done = take(store, path)
    assert (done.problems, seen(store)) == ((), ["function_call_output", "two"])


def test_rollback_of_nothing_changes_nothing(store, path):
    write(path, item("user", "one"), rollback(0), item("assistant", "two"))
    assert taken(store, path) == ["one", "two"]


@pytest.mark.parametrize("odd", [{"type": "ghost_snapshot"}, {"type": "hologram"}])
def test_items_that_the_program_does_not_know_are_not_sent(store, path, odd):
    write(path, item("user", "one"), line("response_item", **odd), item("system", "two"))
    assert taken(store, path) == ["one"]
    kept = store.session("codex:aa").notes("imported")
    assert odd in [note.content["record"].get("payload") for note in kept]
    write(path, compacted(odd, said("user", "Summary: S"), message="S"))
    assert taken(store, path) == ["Summary: S"]


def test_events_count_where_there_are_no_items(store, path):
    write(path, line("event_msg", type="user_message", message="hello"))
    write(path, line("event_msg", type="agent_message", message="yes"))
    assert taken(store, path) == ["hello", "yes"]
    write(path, item("user", "hello"))
    assert taken(store, path) == ["hello"]


def test_envelope_of_an_item_is_kept(store, path):
    write(path, {**item("user", "one"), "ordinal": 7})
    take(store, path)
    (entry,) = [one for one in store.session("codex:aa").audit() if one.kind == "message"]
    assert entry.entry.extra["record"] == {
        "timestamp": "2026-03-01T10:00:00.500Z",
        "type": "response_item",
        "ordinal": 7,
    }


def test_envelope_without_a_payload_is_no_item(store, path):
    write(path, item("user", "one"), {"type": "event_msg", "payload": None})
    assert taken(store, path) == ["one"]


def test_session_whose_id_was_removed_is_named_after_its_file(store, tmp_path):
    path = tmp_path / "rollout-x.jsonl"
    write(path, line("session_meta", id="REDACTED"), item("user", "one"))
    assert take(store, path).session_id == "codex:rollout-x"


def ordered(first: int, *records: Any) -> list[dict[str, Any]]:
    return [{**record, "ordinal": first + n} for n, record in enumerate(records)]


def forked(name: str, base: str, end: int) -> dict[str, Any]:
    shared = {"thread_id": base, "end_ordinal_exclusive": end, "end_byte_offset": 1}
    return line("session_meta", id=name, forked_from_id=base, history_base=shared)


def test_fork_begins_with_the_shared_rows(store, tmp_path):
    days = [tmp_path / "sessions" / "2026" / "03" / day for day in ("01", "02", "03")]
    first, second, third = (
        day / f"rollout-2026-{name}.jsonl"
        for day, name in zip(days, ("aa", "bb", "cc"), strict=True)
    )
    for day in days:
        day.mkdir(parents=True)
    write(first, *ordered(0, META, item("user", "one"), item("assistant", "1"), item("user", "2")))
    write(second, *ordered(3, forked("bb", "aa", 3), item("user", "two"), item("assistant", "2")))
    write(third, *ordered(5, forked("cc", "bb", 5), item("user", "three")))
    assert take(store, second).problems == ()
    assert seen(store, "codex:bb") == ["one", "1", "two", "2"]
    assert take(store, third).problems == ()
    assert seen(store, "codex:cc") == ["one", "1", "two", "three"]
    assert store.session("codex:cc").info().metadata["forked_from"] == "bb"
    write(third, *ordered(7, item("assistant", "3")))
    write(first, *ordered(4, item("assistant", "not shared")))
    assert take(store, third).new == 1
    assert seen(store, "codex:cc") == ["one", "1", "two", "three", "3"]


def test_fork_of_a_missing_thread_is_reported(store, tmp_path):
    file = tmp_path / "rollout-2026-bb.jsonl"
    for name in ("aa", "../aa", "bb"):
        file.unlink(missing_ok=True)
        write(file, *ordered(3, forked("bb", name, 3), item("user", "two")))
        (problem,) = take(store, file).problems
        assert (problem.line, "history is missing" in problem.what) == (1, True)
    assert seen(store, "codex:bb") == ["two"]


def test_summary_of_an_earlier_compaction_is_not_kept(store, path):
    write(path, line("session_meta", id="aa", cli_version="0.59.0"), item("user", "one"))
    write(path, line("compacted", message=f"{SUMMARY}\nS"), item("user", "two"))
    write(path, line("compacted", message=f"{SUMMARY}\nT"))
    assert taken(store, path) == ["one", "two", SUMMARY]


def test_name_of_a_model_that_is_too_long_is_reported_and_left_out(store, path):
    write(path, META, line("turn_context", model="m" * 201, cwd="/work"))
    write(path, item("user", "hello"), item("assistant", "hi"))
    done = take(store, path)
    (problem,) = {it.what for it in done.problems}
    assert problem == (
        "the name of a model, of 201 characters, is not valid; the message was imported without it"
    )
    assert [message.model for message in store.session("codex:aa").view().messages] == [None, None]


def test_item_without_a_role_is_kept_as_a_note(store, path):
    write(path, META, item("", "whose?"), item("user", "hello"))
    done = take(store, path)
    assert (done.messages, done.failed) == (1, False)
    assert [problem.what for problem in done.problems] == ["role has 0 bytes"]
    assert seen(store) == ["hello"]


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
    write(path, item("user", "<environment_context>"))
    for size in sizes:
        write(path, item("user", words(size, "abc ")), item("assistant", "yes"))
    write(path, line("compacted", message=f"{SUMMARY}\nS"), item("user", "more"))
    take(store, path)
    context, *found, summary, last = texts(store)
    assert (context, summary, last) == ("<environment_context>", f"{SUMMARY}\nS", "more")
    expected = [
        size if isinstance(size, int) else (size[0], f"{size[1]} tokens truncated", size[2])
        for size in sent
    ]
    assert [marked(text) if "truncated" in text else len(text) for text in found] == expected
    write(path, item("user", "and more"))
    assert take(store, path).new == 1


def test_characters_are_not_cut(store, tmp_path):
    path = rollout(tmp_path, "0.64.0")
    write(path, item("user", "\xe9\u20ac\U0001f600" * 9_000), item("user", "\xfc" * 30_000))
    write(path, line("compacted", message="S"))
    take(store, path)
    assert marked(texts(store)[0]) == (3_333, "15250 tokens truncated", 3_333)


def test_shortened_message_is_shortened_again_and_rolled_back(store, tmp_path):
    path = rollout(tmp_path, "0.95.0")
    write(path, item("user", words(50_000, "abc ")), item("user", words(50_000, "def ")))
    write(path, line("compacted", message=f"{SUMMARY}\nS"))
    write(path, item("user", words(30_006, "ghi ")), line("compacted", message=f"{SUMMARY}\nT"))
    take(store, path)
    cut, later, summary = texts(store)
    assert (marked(cut)[1], len(later), summary[-1]) == ("2 tokens truncated", 30_006, "T")
    write(path, rollback(2), item("user", "six"))
    take(store, path)
    assert texts(store) == [cut, "six"]


def test_message_with_an_image_keeps_its_text(store, tmp_path):
    image = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
    tags = [
        {"type": "input_text", "text": text} for text in ("<image name=[Image #1]>", "</image>")
    ]
    look = {"type": "input_text", "text": "look"}
    message = {"type": "message", "role": "user"}
    path = rollout(tmp_path, "0.95.0")
    write(path, item("user", "one"))
    write(path, line("response_item", **message, content=[tags[0], image, tags[1], look, look]))
    write(path, line("compacted", message=f"{SUMMARY}\nS"))
    take(store, path)
    assert texts(store)[:2] == ["one", "looklook"]


def rewritten(path: Path, *records: Any) -> None:
    path.write_text("")
    write(path, META, *records)


def diverged(store: Any, path: Path) -> None:
    """A fork `codex:aa~2` of one, three and four, with a note, of a session of one and two."""
    write(path, item("user", "one"), TURN, item("assistant", "two"))
    take(store, path)
    store.session("codex:aa").append("user", "mine")
    rewritten(path, item("user", "one"), TURN, item("assistant", "three"), item("user", "four"))
    done = take(store, path, on_conflict="fork")
    assert (done.session_id, done.messages) == ("codex:aa~2", 2)


def test_fork_has_the_notes_that_the_session_had_after_its_end(store, path):
    diverged(store, path)
    kinds = [note.content["kind"] for note in store.session("codex:aa~2").notes("imported")]
    assert sorted(kinds) == ["session_meta", "turn_context"]
    assert take(store, path).status == "unchanged"


def test_message_that_a_fork_has_on_another_branch_is_not_left_out(store, path):
    diverged(store, path)
    rewritten(path, item("user", "one"), item("assistant", "six"), item("user", "four"))
    assert take(store, path).messages == 2
    assert seen(store, "codex:aa~2") == ["one", "six", "four"]
