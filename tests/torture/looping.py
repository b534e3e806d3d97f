"""An agent that dies at a line of its loop, and continues when it is started again."""

import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import roocontext.store
from roocontext import ContextManager, Session, Store
from roocontext.tokens import counter_for

STORE = str(Path(roocontext.store.__file__).parent)

SYSTEM = "You are a coding agent."
TOOLS = [{"name": "run", "description": "Run it.", "input_schema": {"type": "object"}}]
CONTEXT = ContextManager("claude-opus-5")
ASKED = [{"type": "tool_use", "id": name, "name": "run", "input": {}} for name in "abc"]
SAID: list[Any] = [ASKED[:2], ASKED[2:], [{"type": "text", "text": "done"}]]
"""What the model says, reply by reply."""


def load_vocabulary() -> None:
    """Before the children are forked, so that it is loaded once for all of them."""
    counter_for("claude-opus-5").count("user", "a word", "anthropic")


def work(child: Any, url: str, session: str, deep: bool, die_at: int | None = None) -> None:
    """Run the loop; die at a line of it or, if `deep`, of the store below it.

    A run may take some lines fewer than another: it then dies after its last one.
    """
    with Store.open(url) as store:
        chat = store.open_session(session)
        child.start()
        lines = _Lines(deep, die_at)
        sys.settrace(lines)
        try:
            loop(child, chat)
        finally:
            sys.settrace(None)
        if die_at is not None:
            os.kill(os.getpid(), signal.SIGKILL)
        child.tell(did="end", lines=lines.seen)


def loop(child: Any, chat: Session) -> None:
    """Whatever is recorded is not done again."""
    if chat.head_seq() == 0:
        chat.append("user", "go on until you are done")
    while (turn := chat.waits_for()) != "user":
        if turn == "tools":
            for call in chat.pending():
                chat.begin(call)
                child.tell(did="ran", call=call.id, begun=call.begun)
                chat.answer(call, f"output of {call.id}")
            continue
        CONTEXT.manage(chat, system=SYSTEM, tools=TOOLS)
        request = chat.request("anthropic")
        number = sum(message["role"] == "assistant" for message in request["messages"])
        child.tell(did="asked", reply=number)
        chat.record(_reply(number), request)


def _reply(number: int) -> dict[str, Any]:
    stopped = "end_turn" if number == 2 else "tool_use"
    told = {"type": "message", "id": f"msg_{number}", "model": "claude-opus-5"}
    return {**told, "content": SAID[number], "stop_reason": stopped}


class _Lines:
    """Counts the lines that are run, and dies before one of them."""

    def __init__(self, deep: bool, die_at: int | None) -> None:
        self._deep = deep
        self._die_at = die_at
        self.seen = 0

    def __call__(self, frame: FrameType, event: str, _: Any) -> "_Lines | None":
        code = frame.f_code
        if code is not loop.__code__ and not (self._deep and code.co_filename.startswith(STORE)):
            return None
        if event == "line":
            self.seen += 1
            if self.seen == self._die_at:
                os.kill(os.getpid(), signal.SIGKILL)
        return self
