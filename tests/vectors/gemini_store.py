"""Gemini CLI's functions on a history that a real store holds, and what no store can hold.

A history is told to a session content by content, in Gemini's own form. What the policy decides is
committed, and the view is the history that the program would go on with.
"""

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from roocontext import Store
from roocontext.context.manager import ContextManager
from roocontext.errors import InvalidMessage
from roocontext.log.counting import COMPACTION
from roocontext.log.readings import reader
from roocontext.log.summary import Summary
from roocontext.policies.situation import (
    Aim,
    Ask,
    Decision,
    Nothing,
    Ready,
    Refused,
    ReportedTokens,
    Situation,
    Totals,
)
from roocontext.programs.gemini_cli.policy import (
    THRESHOLD,
    CompressionStatus,
    GeminiUpstream,
    content_of,
)
from roocontext.tokens import counter_for, limit_for
from support.situations import situated
from vectors.programs.gemini_request import request_tokens

COUNTER = counter_for("", name="gemini")

FAILED = ("INFLATED_TOKEN_COUNT", "TOKEN_COUNT_ERROR")
STATUSES = ("COMPRESSED", *(f"COMPRESSION_FAILED_{name}" for name in FAILED), "NOOP")
NUMBERS = {status: number for number, status in enumerate(STATUSES, 1)}
"""The numbers that the recorded version had for its statuses."""


def unheld(contents: Sequence[Any]) -> str | None:
    """Why a store cannot hold this history as it is."""
    for content in contents:
        try:
            reader("gemini").check(content.get("role"), content)
        except InvalidMessage as error:
            return f"a content that is none ({error.path})"
    return None


def told(store: Store, contents: Sequence[Any]) -> Any:
    """A session that holds this history."""
    chat = store.create()
    for content in contents:
        chat.append(content["role"], content, format="gemini")
    assert history(chat) == contents
    return chat


def history(chat: Any) -> list[Any]:
    """The view as contents."""
    return [content_of(message) for message in chat.view().messages]


def window(model: str) -> int:
    """The window of a model in the recorded version."""
    return limit_for(model, profile="gemini", environ={}).context


def counting(given: Any) -> Any:
    """The program's count of a history: the environment is before it, the endpoint is recorded."""

    def count(contents: Sequence[Any]) -> int:
        parts = [part for content in contents for part in content.get("parts") or []]
        request = [{"text": given["environmentText"]}, *parts]
        return request_tokens(request, lambda _: given["apiTokens"])

    return count


def threshold(given: Any) -> float:
    """The recorded setting, or what holds without one."""
    return THRESHOLD if given["threshold"] is None else given["threshold"]


def hooks(given: Any, *, told: bool) -> list[Any]:
    """The hook that the program calls when it gets that far, or does not."""
    trigger = "manual" if given["force"] else "auto"
    heard = told and given["hooksEnabled"]
    return [{"eventName": "PreCompress", "trigger": trigger}] if heard else []


def split(store: Store, contents: Sequence[Any], fraction: float) -> int:
    """The number of contents that go when the policy compresses that fraction."""
    chat = told(store, contents)
    policy = GeminiUpstream(fraction=fraction, count=lambda _: 0)
    decision = policy.decide(situated(chat, COUNTER, window=1, aim=Aim.CONDENSE))
    if isinstance(decision, Nothing):
        return 0
    assert isinstance(decision, Ask)
    ready = decision.compose(Summary(text="S", summariser="recorded"))
    assert isinstance(ready, Ready)
    done = chat.commit(ready.plan)
    assert history(chat)[2:] == list(contents[done.hidden :])
    return done.hidden


def compress(store: Store, given: Any) -> dict[str, Any]:
    """The policy's decision, its question and the result, in the recorded form."""
    chat = told(store, given["history"])
    policy = GeminiUpstream(threshold=threshold(given), count=counting(given))
    situation = situated(
        chat,
        COUNTER,
        window=window(given["model"]),
        model=given["model"],
        aim=Aim.CONDENSE if given["force"] else Aim.MANAGE,
        trigger="manual" if given["force"] else "auto",
        reported=ReportedTokens(given["lastPromptTokenCount"], 0, 0),
        failures=int(given["hasFailedCompressionAttempt"]),
    )
    due = policy.due(situation.totals)
    decision = policy.decide(situation)
    assert due or given["force"] or isinstance(decision, Nothing)
    if isinstance(decision, Nothing):
        assert history(chat) == given["history"]
        return {"status": decision.status, **asked(None)}
    assert isinstance(decision, Ask)
    outcome = decision.compose(Summary(text=given["summary"] or "", summariser="recorded"))
    if isinstance(outcome, Refused):
        assert history(chat) == given["history"]
        return {"status": outcome.status, **asked(decision)}
    chat.commit(outcome.plan)
    assert chat.verify().ok
    counts = outcome.plan.record
    return {
        "status": outcome.status,
        "originalTokenCount": counts["original"],
        "newTokenCount": counts["new"],
        "newHistory": history(chat),
        **asked(decision),
    }


def asked(decision: Decision | None) -> dict[str, Any]:
    """The question for the summariser, if there was one."""
    request = decision.request if isinstance(decision, Ask) else None
    return {
        "summarizerCalled": request is not None,
        "summarizerModelAlias": request and request.model,
        "summarizerContentCount": request and len(request.messages) + 1,
        "summarizerLastUserText": request and request.instruction,
    }


def is_empty(given: Any) -> bool:
    """True if the program would continue with a summary that is blank."""
    return not (given["summary"] or "").strip()


class ServiceResult:
    """A policy whose outcome is given beforehand, as that of the recorded service was."""

    name, compat = "service-result", True

    def __init__(self) -> None:
        self.status = ""
        self.flag: bool | None = None

    def due(self, totals: Totals) -> bool:
        return True

    def decide(self, situation: Situation) -> Decision:
        self.flag = bool(situation.failures)
        if self.status not in (CompressionStatus.COMPRESSED, CompressionStatus.INFLATED):
            return Nothing("As recorded.", self.status)
        after = 0 if self.status == CompressionStatus.COMPRESSED else sys.maxsize
        policy = GeminiUpstream(threshold=0, count=lambda _: after)
        return policy.decide(replace(situation, failures=0))


def latch(store: Store, steps: Sequence[Any]) -> list[dict[str, bool]]:
    """Earlier failures as the manager reports them to the policy, and the outcomes it keeps."""
    chat, service = store.create(), ServiceResult()
    context = ContextManager("gemini-2.5-pro", policy=service, summariser=lambda _: "S")
    answers = []
    for step in steps:
        chat.append("user", "a long story " * 400)
        chat.append("assistant", "I see.")
        chat.append("user", "Well?")
        service.status = step["serviceStatus"]
        (context.condense if step["force"] else context.manage)(chat)
        notes = chat.notes(COMPACTION)
        after = bool(notes and notes[-1].content["failures"])
        answers.append({"flagPassedToService": service.flag, "flagAfter": after})
    return answers
