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
from support.claude_agent_loop import COMPACTED, Hearing, talk

PROGRAM = Path(__file__).parents[1] / "support" / "claude_agent_loop.py"
EXAMPLE = Path(__file__).parents[2] / "examples" / "claude_agent.py"


def test_bundled_program_resumes_from_the_store(tmp_path):
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
        assert len(chat.internals.calls()) == 4
        assert {hit.session_id for hit in store.search("drops")} == {chat.id}
        assert chat.verify().ok
        assert chat.repairs() == ()
        messages, loaded = asyncio.run(read_back(url, info.metadata))
        assert len(loaded) == sum(map(is_record, chat.audit()))
    assert [message.uuid for message in messages] == [message.message_id for message in view]


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


def test_loop_of_fifty_turns_is_stored_and_resumed(opened, leg, tmp_path):
    (tmp_path / "notes.txt").write_text("The parser drops the last token.\n")
    folder = str(tmp_path)
    with opened(leg[0], "sync") as lab:
        name = killed_program(str(lab.url), folder, 30)
        (info,) = lab.store.sessions(where={"session": name})
        chat = lab.store.session(info.session_id)

        async def resume(*prompts):
            async with await AsyncStore.open(lab.url, durability="normal") as store:
                return [one.result async for one in talk(store, folder, prompts, name)]

        replies = sum(one.role == "assistant" for one in chat.audit())
        again = [f"Again {number}" for number in range(20)]
        answers = asyncio.run(resume(*again))
        assert len(answers) == 20
        # What came since the compaction was sent, and not the replies that it hides.
        assert 10 < int(answers[0].split()[2]) < replies - 40
        assert [one.kind for one in chat.audit() if one.kind not in ("message", "note")] == [
            "summary"
        ]
        assert chat.view().messages[0].kind == "summary"
        assert chat.stats().hidden_messages > 90
        before, loaded = list(chat.audit()), asyncio.run(read_back(lab.url, info.metadata))[1]
        assert len(loaded) == sum(map(is_record, before))

        # A rewind of ours to before the last turn, and the program continues from there.
        (last,) = (one.seq for one in before if one.role and one.content == "Again 19")
        chat.rewind(last, keep_target=False)
        rewound = [message.content for message in chat.view().messages]
        Hearing.asked.clear()
        assert len(asyncio.run(resume("Another question"))) == 1
        sent = prompts_of(Hearing.asked[-1]["messages"])
        assert sent[-20:] == [*again[:19], "Another question"]
        assert [message.content for message in chat.view().messages][: len(rewound)] == rewound
        assert prompts_of(chat.messages())[-20:] == sent[-20:]
        check_the_audit(chat, before, again)


def check_the_audit(chat, before, again):
    """Every turn is in the log with its call and its result, and nothing that was there is gone."""
    entries = list(chat.audit())
    assert [one.entry for one in entries[: len(before)]] == [one.entry for one in before]
    turns = {}
    for one in entries:
        if one.kind == "message" and isinstance(one.content, str):
            turns[one.content] = turn = []
        elif one.kind == "message":
            turn += [block["type"] for block in one.content]
    asked = [f"Question {number}" for number in range(30) if number != COMPACTED]
    whole = ["tool_use", "tool_result", "text"]
    for prompt in [*asked, *again, "Another question"]:
        assert turns[prompt] == whole
    assert chat.verify().ok


def is_record(one):
    """True if an entry holds a row of the program, and not a title or metadata."""
    return one.kind in ("message", "summary") or one.entry.note == "claude-agent-sdk"


def prompts_of(messages):
    """The user's prompts in these messages, without the texts that the program adds."""
    contents = [one["content"] for one in messages if one["role"] == "user"]
    blocks = [one if isinstance(one, list) else [{"type": "text", "text": one}] for one in contents]
    texts = [block["text"] for some in blocks for block in some if block["type"] == "text"]
    return [text for text in texts if text.startswith(("Question ", "Again ", "Another "))]


async def read_back(url, metadata):
    async with await AsyncStore.open(url) as store:
        adapter = RooContextSessionStore(store)
        key = {"project_key": metadata["project"], "session_id": metadata["session"]}
        loaded = await adapter.load(key)
        folder = next(one["cwd"] for one in loaded if "cwd" in one)
        assert project_key_for_directory(folder) == metadata["project"]
        return await get_session_messages_from_store(adapter, metadata["session"], folder), loaded
