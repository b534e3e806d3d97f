"""ADK's own loop over our service: tools, compactions, kill -9, resume and a rewind."""

import asyncio
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from google.adk.events import Event

from roocontext import AsyncStore
from support.google_adk_loop import CHAT, ID, Recording, Scripted, runner_of, turn

ROOT = Path(__file__).parents[2]
LOOP = ROOT / "tests" / "support" / "google_adk_loop.py"
TURNS = 50


def killed_loop(url, turns):
    """The events stored by a process when it was killed in some turn."""
    running = subprocess.Popen(
        [sys.executable, LOOP, url], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    stored, done = [], 0
    while done < turns:
        stored.append(Event.model_validate_json(running.stdout.readline()))
        done += bool(stored[-1].content) and stored[-1].is_final_response() - (
            stored[-1].author == "user"
        )
    stored.append(Event.model_validate_json(running.stdout.readline()))  # of the next turn
    running.kill()
    stored += map(Event.model_validate_json, running.stdout.read().splitlines())
    running.wait()
    running.stdout.close()
    return stored


def test_loop_of_fifty_turns_is_stored_and_resumed(opened, leg):
    with opened(leg[0], "sync") as lab:
        stored = killed_loop(str(lab.url), 10)
        done = sum(event.author == "user" and bool(event.content) for event in stored)

        async def resume():
            model = Scripted(model="scripted")
            async with await AsyncStore.open(lab.url, durability="normal") as store:
                service = Recording(store, lambda event: stored.append(event.model_copy(deep=True)))
                runner = runner_of(service, model)
                for number in range(done, TURNS - 1):
                    assert (await turn(runner, f"Question {number}")).startswith("Done")
                    if number % 9 == 0:
                        await same_view(store, model)
                session = await service.get_session(app_name="demo", **CHAT)
                invocation = [e for e in session.events if "Question 45" in str(e.content)][-1]
                await runner.rewind_async(
                    **CHAT, rewind_before_invocation_id=invocation.invocation_id
                )
                await turn(runner, "Question 45 again")
                await same_view(store, model)
                await runner.close()
                return await service.get_session(app_name="demo", **CHAT)

        session = asyncio.run(resume())
        # The process may have been killed between the commit and its report.
        assert [e for e in session.events if e in stored] == stored
        assert len(session.events) <= len(stored) + 1
        assert session.state["app:0.py"] >= TURNS - 1
        chat = lab.store.session(ID)
        kept = [one for one in chat.audit() if one.kind == "message"]
        assert len(kept) == sum(bool(e.content and e.content.parts) for e in session.events)
        assert "Question 46" in str(kept)
        assert "Question 46" not in str(chat.view().messages)
        assert sum(one.kind == "summary" for one in chat.audit()) >= 5
        assert chat.verify().ok


async def same_view(store, model):
    """The last request that ADK made is our view at that time, without the reply to it."""
    chat = await store.session(ID)
    past = await chat.view(as_of=await last_reply(chat))
    newest = [one.seq for one in past.messages if one.role == "model"][-1]
    view = await chat.view(as_of=newest - 1)
    ours = [part for one in view.messages for part in map(shown, one.content["parts"])]
    parts = [part for content in model._asked[-1] for part in content.parts]
    dumped = {"mode": "json", "exclude_none": True, "by_alias": True}
    assert ours == [shown(part.model_dump(**dumped)) for part in parts]


async def last_reply(chat):
    """The entry of the last answer, before a summary that was written after it."""
    replies = [
        one.seq async for one in chat.audit() if one.kind == "message" and one.role == "model"
    ]
    return replies[-1]


def shown(part):
    """A part without the ids that ADK leaves out of requests."""
    for key in ("functionCall", "functionResponse"):
        if key in part:
            return (key, part[key]["name"], str(part[key].get("args", part[key].get("response"))))
    return part.get("text")


@pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL")
def test_example_runs(tmp_path, capsys):
    example = runpy.run_path(str(ROOT / "examples" / "google_adk.py"))
    for expected in ("13 messages in the log, 5 of them", "27 messages in the log, 3 of them"):
        asyncio.run(example["main"](str(tmp_path / "adk.db")))
        shown = capsys.readouterr().out
        assert "Look again. -> There are 2 files." in shown
        assert expected in shown
