"""The Agents SDK's own loop over our session: tools, compactions, kill -9, resume and a rewind."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

from roocontext import AsyncStore
from support.openai_agents_loop import Recording, Scripted, turn
from support.provider_rules.responses import violations

LOOP = Path(__file__).parents[1] / "support" / "openai_agents_loop.py"
TURNS = 50


def killed_loop(url, turns):
    """The items stored by a process when it was killed in some turn."""
    running = subprocess.Popen(
        [sys.executable, LOOP, url, "chat"], stdout=subprocess.PIPE, text=True
    )
    stored, done = [], 0
    while done < turns:
        batch = json.loads(running.stdout.readline())
        stored += batch
        done += batch[-1].get("type") == "message"
    running.stdout.readline()  # the user's next message
    running.kill()
    stored += [it for line in running.stdout.read().splitlines() for it in json.loads(line)]
    running.wait()
    running.stdout.close()
    return stored, done


def test_loop_of_fifty_turns_is_stored_and_resumed(opened, leg):
    with opened(leg[0], "sync") as lab:
        stored, done = killed_loop(str(lab.url), 10)

        async def resume():
            model = Scripted()
            async with await AsyncStore.open(lab.url, durability="normal") as store:
                session = Recording("chat", store, stored.extend)
                for number in range(done, TURNS):
                    assert (await turn(session, model, f"Question {number}")).startswith("Done")
                chat = await store.session("chat")
                before = await session.get_items()
                stats = await chat.stats()
                # A rewind to before the last turn, which then runs again.
                question = [m for m in (await chat.view()).messages if "Question 49" in str(m)][-1]
                await chat.rewind(question.seq, keep_target=False)
                await turn(session, model, "Question 49 again")
                return before, await session.get_items(), stats, model.asked

        before, after, stats, asked = asyncio.run(resume())
        assert stats.hidden_messages > 100
        assert "Question 49" in str(before)
        assert "Question 49 again" in str(after)
        check_the_audit(lab.store.session("chat"), stored)
        for request in asked:
            check_the_request(request)


def check_the_audit(chat, stored):
    """Every item that was stored is in the log, in its order."""
    kept = []
    for one in chat.audit():
        if one.kind == "message":
            kept += one.content if isinstance(one.content, list) else [one.content]
    given = iter(kept)
    assert [item for item in stored if not any(item == other for other in given)] == []
    assert any(one.kind == "summary" for one in chat.audit())
    assert chat.verify().ok


def check_the_request(items):
    """The Responses API accepts it, and reasoning is with what it led to."""
    typed = [{"type": "message", **item} if "role" in item else item for item in items]
    assert violations(typed, complete=True) == []
    for previous, item in zip([{}, *items], items, strict=False):
        if str(item.get("id", "")).startswith("msg_"):
            assert previous.get("type") == "reasoning"
