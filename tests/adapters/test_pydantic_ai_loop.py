"""pydantic-ai's own loop over our store: tools, a compaction, kill -9, resume and a rewind."""

import asyncio
import runpy
import subprocess
import sys
from pathlib import Path

from pydantic_ai.messages import CompactionPart, ModelMessagesTypeAdapter

from roocontext import AsyncContextManager, AsyncStore
from roocontext.adapters.pydantic_ai import RooContextConversationStore, session_id
from support.pydantic_ai_loop import Scripted, turn

LOOP = Path(__file__).parents[1] / "support" / "pydantic_ai_loop.py"
TURNS = 50


def killed_loop(url, turns):
    """The number of turns that a process had saved when it was killed."""
    running = subprocess.Popen([sys.executable, LOOP, url, "t"], stdout=subprocess.PIPE, text=True)
    done = 0
    while done < turns:
        done = int(running.stdout.readline()) + 1
    running.kill()
    rest = running.stdout.read().split()
    running.wait()
    running.stdout.close()
    return int(rest[-1]) + 1 if rest else done


def test_loop_of_fifty_turns_is_stored_and_resumed(opened, leg):
    with opened(leg[0], "sync") as lab:
        killed_loop(str(lab.url), 12)
        model = Scripted()

        async def resume():
            async with await AsyncStore.open(lab.url, durability="normal") as store:
                ai = RooContextConversationStore(store)
                saved = (await ai.load("t")).messages
                done = len(saved) // 4
                for number in range(done, TURNS):
                    if number == TURNS // 2:
                        chat = await store.session(session_id("t"))
                        await AsyncContextManager(limit=4_000).condense(chat)
                    result = await turn(store, model, "t", f"Question {number}")
                    assert result.output.startswith("Done")
                whole = await ai.load("t")
                assert whole.messages[: len(saved)] == saved
                # Back to before the last turn, which then runs again.
                await ai.branch("t", at=4 * (TURNS - 1), expected_revision=whole.revision)
                await turn(store, model, "t", "The last question again")
                return saved, whole.messages, (await ai.load("t")).messages

        saved, whole, again = asyncio.run(resume())
        assert len(saved) >= 48
        assert len(whole) == len(again) == 4 * TURNS
        assert again[:-4] == whole[:-4]
        assert again[-4].parts[0].content == "The last question again"
        check_the_audit(lab.store.session(session_id("t")), [*whole, *again[-4:]])
        assert any(
            isinstance(one.parts[0], CompactionPart) for asked in model.asked for one in asked
        )
        for messages in model.asked:
            check_the_request(messages)


def test_example_runs(tmp_path, capsys):
    example = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "pydantic_agent.py"))
    for _ in range(2):
        asyncio.run(example["main"](str(tmp_path / "agents.db")))
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "Which files are there? -> There are 40 files; I was sent 3 messages."
    assert [line.split(" of ")[0] for line in out[3::4]] == [
        "13 messages in the log, 3",
        "26 messages in the log, 5",
    ]


def check_the_audit(chat, messages):
    """Every message that was saved is in the log, in its order."""
    kept = [one.content for one in chat.audit() if one.kind == "message"]
    assert ModelMessagesTypeAdapter.validate_python(kept) == messages
    assert any(one.kind == "summary" for one in chat.audit())
    assert chat.stats().hidden_messages > 40
    assert chat.verify().ok


def check_the_request(messages):
    """Each call has its result in the next message, and nothing is sent twice."""
    parts = [part for one in messages for part in one.parts]
    calls = [part.tool_call_id for part in parts if part.part_kind == "tool-call"]
    assert calls == [part.tool_call_id for part in parts if part.part_kind == "tool-return"]
    prompts = [part.content for part in parts if part.part_kind == "user-prompt"]
    assert len(prompts) == len(set(prompts))
    assert messages[-1].kind == "request"
