"""An agent that dies at a line of its loop, and goes on when it is started again."""

import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import roocontext.store
from roocontext import Session, Store

STORE = str(Path(roocontext.store.__file__).parent)

ASKED = [{"type": "tool_use", "id": name, "name": "run", "input": {}} for name in "abc"]
REPLIES: list[Any] = [ASKED[:2], ASKED[2:], "done"]
"""What the model answers, reply by reply."""


def work(child: Any, url: str, session: str, deep: bool, die_at: int | None = None) -> None:
    """Run the loop; die at a line of it or, if `deep`, of the store below it."""
    with Store.open(url) as store:
        chat = store.open_session(session)
        child.start()
        lines = _Lines(deep, die_at)
        sys.settrace(lines)
        try:
            loop(child, chat)
        finally:
            sys.settrace(None)
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
        view = chat.view()
        number = sum(message.role == "assistant" for message in view.messages)
        child.tell(did="asked", reply=number)
        chat.append("assistant", REPLIES[number], asked_at=view.seq)


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
