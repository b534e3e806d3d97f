"""Counters and limits answer as the real programs answered, on every recorded input."""

import sys
from collections.abc import Callable
from typing import Any

import pytest

from roocontext.programs.gemini_cli import counter as gemini
from roocontext.programs.multi_llm_chat import counter as multi_llm_chat
from roocontext.programs.opencode import prune as opencode
from roocontext.programs.roo.counter import roo_tokens
from roocontext.tokens import counter_for, limit_for
from vectors.programs.gemini_request import request_tokens
from vectors.programs.multi_llm_chat import content_to_text
from vectors.replay import replay

FUNCTIONS: dict[str, Callable[[Any], Any]] = {}


def replays(name: str) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """Says which recordings a function answers."""

    def keep(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        FUNCTIONS[name] = function
        return function

    return keep


@replays("roo/tiktoken")
def roo(given: Any) -> int:
    total = roo_tokens(given["content"])
    assert counter_for("", name="roo").count("user", given["content"], "anthropic") == total
    return total


@replays("gemini/estimate_tokens")
def gemini_estimate(given: Any) -> Any:
    total = gemini.estimate(given["parts"])
    content = {"role": "user", "parts": given["parts"]}
    assert counter_for("gemini-2.5-pro").count("user", content, "gemini") == total
    return {"tokens": total}


@replays("gemini/estimate_tokens_v0_61")
def gemini_estimate_0_61(given: Any) -> Any:
    total = gemini.estimate_0_61(given["parts"])
    content = {"role": "user", "parts": given["parts"]}
    assert counter_for("", name="gemini-0.61").count("user", content, "gemini") == total
    return {"tokens": total}


@replays("gemini/request_tokens")
def gemini_request(given: Any) -> Any:
    asked = []

    def count_tokens(parts: Any) -> int | None:
        asked.append(parts)
        if given["countTokensBehaviour"] == "throws":
            raise ConnectionError
        return None if given["countTokensBehaviour"] == "none" else 258

    total = request_tokens(given["request"], count_tokens)
    return {"tokens": total, "countTokensCalled": bool(asked)}


@replays("gemini/token_limit")
def gemini_limit(given: Any) -> Any:
    return {"limit": limit_for(given["model"], profile="gemini", environ={}).context}


@replays("opencode/estimate")
def opencode_estimate(given: Any) -> Any:
    text = given["text"]
    ceil, rounded = opencode.estimate_length(text), opencode.estimate_upstream(text)
    assert counter_for("", name="opencode").count("user", text, "anthropic") == ceil
    assert counter_for("", name="opencode-upstream").count("user", text, "anthropic") == rounded
    return {"seed_ceil": ceil, "upstream_round": rounded}


@replays("sliding_window/estimate_tokens")
def multi_llm_chat_estimate(given: Any) -> Any:
    text = given["text"]
    plain, tools = multi_llm_chat.estimate_plain(text), multi_llm_chat.estimate_with_tools(text)
    assert counter_for("", name="multi_llm_chat").count("user", text, "anthropic") == plain
    assert counter_for("", name="multi_llm_chat-tools").count("user", text, "anthropic") == tools
    return {"estimate": multi_llm_chat.estimate_text(text), "x1.2": plain, "x1.5": tools}


@replays("sliding_window/max_context")
def multi_llm_chat_limit(given: Any) -> Any:
    limit = limit_for(given["model_name"], profile="multi_llm_chat", environ=given["env"])
    return {"max_context": limit.context}


@replays("sliding_window/content_to_text")
def multi_llm_chat_text(given: Any) -> Any:
    text = content_to_text
    return {
        "with_tools": text(given["content"], tools=True),
        "without_tools": text(given["content"], tools=False),
    }


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_recording_is_reproduced(name, capsys):
    count = replay(name, FUNCTIONS[name])
    with capsys.disabled():
        sys.stdout.write(f"\n{name}: {count} of {count} ")
