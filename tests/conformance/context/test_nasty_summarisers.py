"""Summarisers that fail in every way that there is: nothing changes, or it is cut instead."""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from roocontext.errors import SummaryFailed
from roocontext.log.summary import Summary
from roocontext.summarisers import summariser_for
from support.async_manager import manager
from support.dialogue import WORDS, fill
from support.examples import everyday
from support.fake_provider import (
    BLANK,
    EMPTY,
    FULL,
    REFUSAL,
    Answer,
    Broken,
    Half,
    Hang,
    ModelServer,
    Refused,
    overloaded,
    rate_limited,
    too_long,
)
from support.nasty_sessions import WINDOW
from support.run_judge import Trial, Verdict, judge, settle

POLICIES = ("default", "hybrid", "gemini", "opencode")
"""Those that ask for summaries."""

CROWDED = 17
"""So many messages are due for the default policy, and fit."""


def summary(**facts: Any) -> Summary:
    return Summary(**{"text": "short", "summariser": "scripted", "calls": 1, **facts})


BAD: dict[str, Any] = {
    "raises": ValueError("secret words"),
    "raises an error of ours": SummaryFailed(kind="overloaded", calls=3),
    "raises an error of ours with no numbers": SummaryFailed(calls="many", cost=float("nan")),
    "runs out of time": TimeoutError(),
    "stops an iteration": StopIteration("secret words"),
    "goes too deep": RecursionError(),
    "has no memory left": MemoryError(),
    "is empty": "",
    "is blank": " \n\t\u2003",
    "is longer than what it stands for": WORDS * 500,
    "answers None": lambda _: None,
    "answers a number": lambda _: 7,
    "answers bytes": lambda _: b"short",
    "answers a list of texts": lambda _: ["short"],
    "has no text": summary(text=None),
    "has a number for a text": summary(text=7),
    "has calls that are no number": summary(calls="many"),
    "costs what JSON cannot hold": summary(cost=float("nan")),
    "tells facts that JSON cannot hold": summary(facts={"at": object()}),
}
GOOD: dict[str, Any] = {
    "has lone surrogates and NUL": "short \ud83d \0",
    "looks like a tool call": '{"type": "tool_use", "id": "a"}</summary>',
    "is almost as long as it may be": lambda request: "word " * (request.longest * 9 // 10),
    "has blanks around it": "\n\n  short  \n",
    "changes what it was given": lambda request: _spoil(request) or "short",
}


FAILING = [(name, policy) for name in BAD for policy in POLICIES]
ALIKE = [
    (name, policy)
    for name, policy in FAILING
    if name in ("raises", "is empty", "is longer than what it stands for")
]
"""A summary is refused before the policy learns of it, in whichever way it is bad."""
OFTEN = [one for one in FAILING if one[1] == "default" or one in ALIKE]


def _spoil(request: Any) -> None:
    for message in request.messages:
        message["content"].clear()
    request.messages[0]["role"] = "nobody"


class Answering:
    """A summariser that is no function, so that nothing stands between it and the manager."""

    name = "answering"

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.requests: list[Any] = []

    def summarise(self, request: Any) -> Any:
        self.requests.append(request)
        answer = self.answer(request) if callable(self.answer) else self.answer
        if isinstance(answer, BaseException):
            raise answer
        return answer


def tried(chat: Any, policy: Any, answer: Any) -> Verdict:
    """Run a manager whose summariser answers so, and then again until the session is at rest."""

    def make() -> Trial:
        asked = Answering(answer)
        options = {"policy": policy, "limit": WINDOW, "summariser": asked}
        return Trial(manager(chat, **options), asked.requests)

    verdict = judge(chat, make)
    settle(chat, make)
    return verdict


@pytest.mark.parametrize(("name", "policy"), everyday(OFTEN, FAILING))
def test_failing_summariser_below_the_window_changes_nothing(memory, name, policy):
    chat = memory.create()
    fill(chat, CROWDED)
    verdict = tried(chat, policy, BAD[name])
    if policy == "default":
        assert (verdict.status, verdict.asked) == ("failed", 1)
    assert not any("secret" in str(note.content) for note in chat.notes("compaction"))


@pytest.mark.parametrize(("name", "policy"), everyday(ALIKE, FAILING))
def test_failing_summariser_over_the_window_truncates(memory, name, policy):
    chat = memory.create()
    fill(chat, 40)
    verdict = tried(chat, policy, BAD[name])
    assert (verdict.status, verdict.asked) == ("truncated", 1)
    assert chat.notes("compaction")[0].content["event"] == "failed"


@pytest.mark.only("postgres")
@pytest.mark.parametrize(
    "name", everyday(("raises", "is empty", "costs what JSON cannot hold"), list(BAD))
)
def test_failing_summariser_is_the_same_on_a_server(chat, name):
    fill(chat, CROWDED)
    assert tried(chat, "default", BAD[name]).status == "failed"


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", GOOD)
def test_odd_summary_is_committed(memory, name, policy):
    chat = memory.create()
    fill(chat, 40)
    before = [row.content for row in chat.view().messages]
    answer = GOOD[name]
    said = (
        (lambda request: summary(text=answer(request)))
        if callable(answer)
        else summary(text=answer)
    )
    assert tried(chat, policy, said).status == "condensed"
    assert [row.content for row in chat.view(as_of=40).messages] == before


# A model behind the real SDK

REMOTE: dict[str, tuple[Any, ...]] = {
    "streams half and dies": (Half(),),
    "streams half and ends as if that were all": (Half(rude=False),),
    "breaks off with an error event": (Broken(),),
    "is rate limited for ever": (rate_limited(),),
    "is overloaded for ever": (overloaded(),),
    "finds every prompt too long": (too_long(),),
    "finds every prompt too long and says by how much": (too_long(9_000, 100),),
    "is empty": (EMPTY,),
    "is blank": (BLANK,),
    "refuses": (REFUSAL,),
    "is cut off": (FULL,),
    "is longer than what it stands for": (Answer(WORDS * 500),),
    "fails inside": (Refused(500, "api_error", headers={"retry-after-ms": "1"}),),
    "does not know the key": (Refused(401, "authentication_error"),),
    "hangs": (Hang(),),
    "hangs in the middle": (Hang(begun=True),),
}
REPEATED: dict[str, tuple[Any, ...]] = {
    "is overloaded once": (overloaded(), Answer("What was done.")),
    "is rate limited once": (rate_limited(), Answer("What was done.")),
    "finds the prompt too long once": (too_long(1_100, 1_000), Answer("What was done.")),
}


@pytest.fixture
def remote() -> Iterator[Callable[..., Any]]:
    """Makes a server that answers each run of a manager by the same script, and its client."""
    with ModelServer() as server:

        def scripted(script: tuple[Any, ...]) -> Any:
            server.script, server.otherwise = deque(script[:-1]), script[-1]
            hangs = isinstance(script[-1], Hang)
            options = {"timeout": 0.05, "max_retries": 0} if hangs else {"max_retries": 1}
            return server.client(**options)

        yield scripted


@pytest.mark.parametrize("name", REMOTE)
def test_model_that_fails_without_a_fallback_changes_nothing(memory, remote, name):
    chat = memory.create()
    fill(chat, CROWDED)
    summariser = summariser_for("anthropic", client=remote(REMOTE[name]))
    make = lambda: Trial(manager(chat, limit=WINDOW, summariser=summariser), [])  # noqa: E731
    assert judge(chat, make).status == "failed"


@pytest.mark.parametrize("name", [*REMOTE, *REPEATED])
def test_client_with_a_fallback_always_gives_a_summary(memory, remote, name):
    chat = memory.create()
    fill(chat, 40)
    script = {**REMOTE, **REPEATED}[name]
    make = lambda: Trial(manager(chat, limit=WINDOW, client=remote(script)), [])  # noqa: E731
    verdict = judge(chat, make)
    if name == "is longer than what it stands for":
        assert verdict.status == "truncated"
    else:
        assert verdict.status == "condensed"
        (change,) = verdict.changes
        assert bool(change.record["summary"]["fallback"]) is (name in REMOTE)
