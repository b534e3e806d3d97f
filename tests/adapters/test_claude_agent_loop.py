"""The program that the Claude Agent SDK bundles, with our store: tools, and a resume from it."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

from claude_agent_sdk import get_session_messages_from_store, project_key_for_directory

from roocontext import AsyncStore, Store
from roocontext.adapters.claude_agent_sdk import RooContextSessionStore
from support.claude_program import talk

PROGRAM = Path(__file__).parents[1] / "support" / "claude_program.py"
EXAMPLE = Path(__file__).parents[2] / "examples" / "claude_agent.py"


def test_the_bundled_program_resumes_from_the_store(tmp_path):
    url = tmp_path / "agents.db"
    run = subprocess.run(
        [sys.executable, EXAMPLE, url], capture_output=True, text=True, timeout=120, check=False
    )
    assert run.returncode == 0, run.stderr
    # The second run sent what the first had stored.
    assert "Read them again. -> Read it; 3 replies came before." in run.stdout
    with Store.open(url) as store:
        (info,) = store.sessions(where={"framework": "claude-agent-sdk", "level": "main"})
        chat = store.session(info.session_id)
        view = chat.view().messages
        assert [message.role for message in view] == ["user", "assistant"] * 4
        assert "The parser drops the last token." in str(view[2].content)
        assert not [one for one in chat.audit() if one.kind not in ("message", "note")]
        assert chat.waits_for() == "user"
        assert len(chat.calls()) == 4
        assert {hit.session_id for hit in store.search("drops").hits} == {chat.id}
        assert chat.verify().ok
        assert chat.validate() == ()
        messages, loaded = asyncio.run(read_back(url, info.metadata))
    assert [message.uuid for message in messages] == [message.message_id for message in view]
    assert len(loaded) == sum(one.kind in ("message", "note") for one in chat_entries(url, chat.id))


def killed_program(url, folder, turns):
    """The session of a process that was killed with the program it runs, after so many turns."""
    running = subprocess.Popen(
        [sys.executable, PROGRAM, url, folder],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    name = [running.stdout.readline().strip() for _ in range(turns)][-1]
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    running.stdout.close()
    return name


def test_fifty_turns_with_a_compaction_and_a_kill(tmp_path):
    (tmp_path / "notes.txt").write_text("The parser drops the last token.\n")
    url, folder = tmp_path / "agents.db", str(tmp_path)
    name = killed_program(str(url), folder, 30)

    async def resume():
        async with await AsyncStore.open(url, durability="normal") as store:
            prompts = [f"Again {number}" for number in range(20)]
            return [one.result async for one in talk(store, folder, prompts, name)]

    answers = asyncio.run(resume())
    assert len(answers) == 20
    assert int(answers[0].split()[2]) > 35  # the replies since the compaction were sent
    with Store.open(url) as store:
        (info,) = store.sessions(where={"session": name})
        chat = store.session(info.session_id)
        entries = list(chat.audit())
        prompts = [one.content for one in entries if one.role and isinstance(one.content, str)]
        asked = [one for one in prompts if one.startswith("Question ")]
        assert asked[:29] == [f"Question {number}" for number in range(30) if number != 8]
        assert [one for one in prompts if one.startswith("Again ")] == [
            f"Again {number}" for number in range(20)
        ]
        assert [one.kind for one in entries if one.kind not in ("message", "note")] == ["summary"]
        view = chat.view().messages
        assert view[0].kind == "summary"
        assert "Question 0" not in [message.content for message in view]
        assert chat.stats().hidden_messages > 25
        loaded = asyncio.run(read_back(url, info.metadata))[1]
        assert len(loaded) == sum(one.kind != "summary" for one in entries) + 1 - sum(
            one.entry.note in ("metadata", "title") for one in entries
        )
        assert chat.verify().ok


async def read_back(url, metadata):
    async with await AsyncStore.open(url) as store:
        adapter = RooContextSessionStore(store)
        key = {"project_key": metadata["project"], "session_id": metadata["session"]}
        loaded = await adapter.load(key)
        folder = next(one["cwd"] for one in loaded if "cwd" in one)
        assert project_key_for_directory(folder) == metadata["project"]
        return await get_session_messages_from_store(adapter, metadata["session"], folder), loaded


def chat_entries(url, session_id):
    """The entries that hold records of the program: no titles, and no metadata."""
    with Store.open(url) as store:
        return [
            one
            for one in store.session(session_id).audit()
            if one.entry.note not in ("metadata", "title")
        ]
