"""The Claude Agent SDK's SessionStore: its conformance run, and what the records are in our log."""

import asyncio
from contextlib import AsyncExitStack, closing
from importlib import import_module
from typing import Any

import pytest
from claude_agent_sdk import (
    delete_session_via_store,
    fork_session_via_store,
    get_session_messages_from_store,
    list_sessions_from_store,
    rename_session_via_store,
)
from claude_agent_sdk.testing import run_session_store_conformance

from roocontext import AsyncStore, InvalidMessage
from roocontext.adapters.claude_agent_sdk import RooContextSessionStore
from support.claude_agent_driver import ID, KEY, ClaudeAgentDriver, kinds, lines, seen
from support.transcripts import Transcript, use

DRIVER = ClaudeAgentDriver


def test_conformance_run_of_the_sdk(leg, opened):
    async def run() -> int:
        made = 0
        async with AsyncExitStack() as closing:

            async def make() -> Any:
                nonlocal made
                made += 1
                lab = closing.enter_context(opened(*leg))
                store = await AsyncStore.open(lab.url, durability="normal")
                closing.push_async_callback(store.close)
                return RooContextSessionStore(store)

            await run_session_store_conformance(make)
        return made

    assert asyncio.run(run()) > 10


def test_entries_are_stored_as_messages_and_notes_and_come_back_equal(driver, file):
    file.user("hello")
    file.reply("m1", {"type": "thinking", "thinking": "hm", "signature": "x"})
    file.reply("m1", "let me see", use("t1"), stop="tool_use")
    file.result("t1")
    file.reply("m2", "done", stop="end_turn")
    file.line({"type": "ai-title", "aiTitle": "A title", "sessionId": "s-1"})
    entries = lines(file)
    driver.append(*entries[:3])
    driver.append(*entries[3:])
    assert driver.load() == entries
    chat = driver.chat()
    assert [message.message_id for message in chat.view().messages] == [
        f"u-{number}" for number in range(1, 6)
    ]
    assert chat.info().title == "A title"
    assert [call.seq for call in chat.internals.calls()] == [
        message.seq for message in chat.view().messages if message.message_id in ("u-3", "u-5")
    ]
    assert chat.waits_for() == "user"
    assert chat.verify().ok


def test_uuid_is_stored_once_and_an_entry_without_one_always(driver, file):
    file.user("hello")
    file.line({"type": "tag", "tag": "x", "sessionId": "s-1"})
    entries = lines(file)
    driver.append(*entries, entries[0])
    driver.append(*entries)
    driver.append({**entries[0], "message": {"role": "user", "content": "another"}})
    assert driver.load() == [entries[0], entries[1], entries[1]]


def test_deletion_includes_a_session_with_other_metadata(quick, file):
    file.user("hello")
    keys = (KEY, {**KEY, "subpath": "subagents/a"})
    for key in keys:
        quick.append(*lines(file), key=key)
    for name in (ID, f"{ID}/subagents%2Fa"):
        quick.chat(name).set_metadata({"mine": 1})
    own = quick.store.create(parent=ID)
    own.append("user", "stays")
    for _ in range(2):
        quick.run(quick.adapter.delete(KEY))
    assert [quick.load(key) for key in keys] == [None, None]
    assert len(own.view().messages) == 1
    assert [one.entry.note for one in quick.chat().audit()].count("adapter.epoch") == 1


def test_fork_is_no_session_of_the_sdk(quick, file):
    file.user("hello")
    quick.append(*lines(file))
    quick.chat().fork()
    assert [one["session_id"] for one in quick.run(quick.adapter.list_sessions("-work"))] == ["s-1"]
    assert len(quick.run(quick.adapter.list_session_summaries("-work"))) == 1


def test_new_process_continues_the_session(driver, file):
    file.user("one")
    first = file.reply("m1", "two", stop="end_turn")
    driver.append(*lines(file))
    with closing(ClaudeAgentDriver(driver.url)) as other:
        file.user("three")
        other.append(*lines(file)[2:])
        file.user("four", parent=first)
        driver.append(*lines(file)[1:])
        assert seen(driver.chat()) == [("u", "one"), ("a", "two"), ("u", "four")]
        assert kinds(driver.chat()) == ["rewind"]
        assert other.load() == driver.load() == lines(file)


def test_two_processes_keep_one_summary_of_a_session(driver):
    def entry(uuid: str) -> Any:
        said = {"role": "user", "content": uuid}
        return {"type": "user", "uuid": uuid, "parentUuid": None, "message": said}

    with closing(ClaudeAgentDriver(driver.url)) as other:
        driver.append(entry("a"), {"type": "tag", "tag": "a"})
        other.append(entry("c"), {"type": "custom-title", "customTitle": "C"})
        driver.append(entry("d"), {"type": "tag", "tag": "d"})
        (summary,) = driver.run(driver.adapter.list_session_summaries("-work"))
        assert (summary["data"]["custom_title"], summary["data"]["tag"]) == ("C", "d")


def test_sub_agents_are_child_sessions(driver, file):
    file.user("go")
    driver.append(*lines(file), key={**KEY, "subpath": "subagents/agent-1"})
    assert driver.load() is None
    assert driver.run(driver.adapter.list_sessions("-work")) == []
    driver.append(*lines(file))
    assert [child.session_id for child in driver.chat().children()] == [f"{ID}/subagents%2Fagent-1"]
    assert driver.run(driver.adapter.list_subkeys(KEY)) == ["subagents/agent-1"]


def test_deleted_session_is_hidden_and_its_id_can_be_used_again(driver, file):
    sub = {**KEY, "subpath": "subagents/agent-1"}
    file.user("secret")
    driver.append(*lines(file))
    driver.append(*lines(file), key=sub)
    driver.run(driver.adapter.delete(KEY))
    driver.run(driver.adapter.delete(KEY))
    assert (driver.load(), driver.load(sub)) == (None, None)
    assert driver.run(driver.adapter.list_subkeys(KEY)) == []
    assert driver.chat().view().messages == ()
    assert "secret" in str([one.content for one in driver.chat().audit()])
    driver.append(*lines(file))
    assert driver.load() == lines(file)
    assert seen(driver.chat()) == [("u", "secret")]
    assert [one["session_id"] for one in driver.run(driver.adapter.list_sessions("-work"))] == [
        "s-1"
    ]
    driver.append(*lines(file), key=sub)
    assert driver.run(driver.adapter.list_subkeys(KEY)) == ["subagents/agent-1"]


def test_metadata_of_others_keeps_nothing_from_being_listed_or_written(driver, file):
    sub = {**KEY, "subpath": "subagents/agent-1"}
    file.user("a")
    driver.append(*lines(file))
    driver.append(*lines(file), key=sub)
    driver.chat(f"{ID}/subagents%2Fagent-1").fork(session_id="a-fork", parent=ID)
    other = driver.store.open_session("yours", parent=ID)
    other.set_metadata({"framework": "claude-agent-sdk", "subpath": 5})
    assert driver.run(driver.adapter.list_subkeys(KEY)) == ["subagents/agent-1"]
    chat = driver.chat()
    chat.set_metadata({**chat.info().metadata, "summary": None})
    (found,) = driver.run(driver.adapter.list_session_summaries("-work"))
    assert found["data"] == {}
    file.user("b")
    driver.append(*lines(file))
    assert driver.load() == lines(file)


STRANGE = [
    {"type": "of-the-future", "uuid": "f-1", "nested": [{"a": 1.0, "b": 1, "c": True}]},
    {"type": "user", "uuid": "f-2", "message": {"role": "user"}},
    {"type": "user", "uuid": "f-3", "message": {"role": "user", "content": None}},
    {"type": "assistant", "uuid": "f-4", "message": {"content": [{"type": "new", "x": 2**70}]}},
    {"type": "user", "uuid": "f-5\0\ud800", "message": {"content": "half \ud800 and \0"}},
    {"type": "user", "uuid": "x" * 3000, "message": {"content": []}},
    {"type": "user", "uuid": 5, "message": {"content": "the uuid is no text"}},
    {"uuid": "f-6", "message": {"content": "it has no type"}},
]


def test_unknown_kinds_and_strange_values_come_back_equal(driver):
    driver.append(*STRANGE)
    assert repr(driver.load()) == repr(STRANGE)
    driver.append(*STRANGE)
    assert driver.load() == [*STRANGE, STRANGE[-2]]  # the one without an id that can be compared


def test_non_json_is_refused_and_writes_nothing(quick, file):
    file.user("hello")
    for bad in (float("nan"), b"bytes", {1: 2}):
        with pytest.raises(InvalidMessage):
            quick.append(*lines(file), {"type": "x", "value": bad})
    assert quick.load() is None
    quick.append(*lines(file))
    assert quick.load() == lines(file)


def test_keys_of_any_text_are_kept_apart(quick):
    keys = [
        {"project_key": "a/b", "session_id": "c"},
        {"project_key": "a", "session_id": "b/c"},
        {"project_key": "a", "session_id": "b", "subpath": "c"},
        {"project_key": "", "session_id": "\ud800\0%"},
    ]
    for key in keys:
        quick.append({"type": "x", "key": key["session_id"]}, key=key)
    for key in keys:
        assert quick.load(key) == [{"type": "x", "key": key["session_id"]}]


def test_helpers_of_the_sdk_work(quick, tmp_path):
    folder = str(tmp_path)
    project = import_module("claude_agent_sdk").project_key_for_directory(folder)
    name = "11111111-1111-4111-8111-111111111111"
    file = Transcript(tmp_path / "x.jsonl", name)
    file.user("the question")
    file.reply("m1", "the answer", stop="end_turn")
    names = [f"00000000-0000-4000-8000-00000000000{number}" for number in (1, 2)]
    entries = [
        {**one, "uuid": name, "parentUuid": parent}
        for one, name, parent in zip(lines(file), names, (None, names[0]), strict=True)
    ]
    quick.append(*entries, key={"project_key": project, "session_id": name})
    quick.run(rename_session_via_store(quick.adapter, name, "Renamed", folder))
    (listed,) = quick.run(list_sessions_from_store(quick.adapter, folder))
    assert (listed.session_id, listed.custom_title) == (name, "Renamed")
    assert listed.first_prompt == "the question"
    assert quick.chat(f"claude-agent-sdk:{project}/{name}").info().title == "Renamed"
    messages = quick.run(get_session_messages_from_store(quick.adapter, name, folder))
    assert [one.type for one in messages] == ["user", "assistant"]
    forked = quick.run(fork_session_via_store(quick.adapter, name, folder))
    assert len(quick.run(list_sessions_from_store(quick.adapter, folder))) == 2
    copied = quick.chat(f"claude-agent-sdk:{project}/{forked.session_id}")
    assert [text for _, text in seen(copied)] == ["the question", "the answer"]
    quick.run(delete_session_via_store(quick.adapter, name, folder))
    (left,) = quick.run(list_sessions_from_store(quick.adapter, folder))
    assert left.session_id == forked.session_id
