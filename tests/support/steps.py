"""How many steps of the interpreter a call takes: the same on every machine, unlike its time."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def steps_of(call: Callable[[], Any]) -> int:
    """The bytecode instructions that a call runs, without those of functions written in C."""
    steps = 0

    def count(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal steps
        frame.f_trace_opcodes = True
        steps += event == "opcode"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        call()
    finally:
        sys.settrace(before)
    return steps
