"""An agent's loop that is killed at each of its lines, and started again.

What was recorded is there once. At most the step that was in flight is done again, and if that is a
tool's, its call says that it had begun.
"""

from collections import Counter
from typing import Any

import pytest

from roocontext import Store
from support.examples import TORTURE, everyday
from torture.processes import Brood

SAMPLE = 200 if TORTURE else 1
"""How many lines are tried; each day it is the one in the middle."""

EXPECTED = [
    ("user", "go on until you are done"),
    ("assistant", ["a", "b"]),
    ("user", "output of a"),
    ("user", "output of b"),
    ("assistant", ["c"]),
    ("user", "output of c"),
    ("assistant", "done"),
]


PLACES = [("file", False), ("postgres", True)]
"""Each day the lines of the loop itself are tried on one engine, and those of the store on the
other."""


@pytest.mark.parametrize(
    ("url", "deep"),
    everyday(PLACES, [*PLACES, ("file", True), ("postgres", False)]),
    indirect=["url"],
)
def test_recorded_step_is_not_repeated_after_a_kill(nursery, url, deep):
    options = {"url": url, "deep": deep}
    undisturbed = nursery.run(("work", {**options, "session": "undisturbed"}))
    lines = undisturbed.told[-1]["lines"]
    for die_at in _spread(lines, SAMPLE):
        name = f"killed at line {die_at}"
        killed = nursery.run(("work", {**options, "session": name, "die_at": die_at}))
        assert killed.ends == [-9]
        resumed = nursery.run(("work", {**options, "session": name}))
        assert resumed.ends == [0], name
        _check_steps(killed, resumed)
        with Store.open(url) as store:
            chat = store.session(name)
            assert [_said(message) for message in chat.view().messages] == EXPECTED, name
            assert (chat.waits_for(), chat.pending()) == ("user", [])
            assert len(list(chat.notes("frame"))) == 1, name
            assert chat.verify().ok


def _check_steps(killed: Brood, resumed: Brood) -> None:
    """Only the last step before the kill may be done again, and a tool's says so."""
    before, after = ([_step(facts) for facts in it.told] for it in (killed, resumed))
    repeated = Counter(before) & Counter(after)
    assert set(repeated.elements()) <= set(before[-1:])
    for facts in resumed.told:
        if facts["did"] == "ran" and _step(facts) in repeated:
            assert facts["begun"]
    done = {*before, *after}
    assert done == {("asked", 0), ("asked", 1), ("asked", 2), *(("ran", it) for it in "abc"), END}


END = ("end", None)


def _step(facts: dict[str, Any]) -> tuple[str, Any]:
    return facts["did"], facts.get("reply", facts.get("call"))


def _said(message: Any) -> tuple[str, Any]:
    """The role, and the text or the ids of the calls."""
    content = message.content
    if isinstance(content, str):
        return message.role, content
    if message.role == "user":
        return message.role, content[0]["content"]
    if content[0]["type"] == "text":
        return message.role, content[0]["text"]
    return message.role, [block["id"] for block in content]


def _spread(lines: int, most: int) -> list[int]:
    """So many of the lines, evenly; all of them if they are few."""
    return sorted({1 + (2 * number + 1) * lines // (2 * most) for number in range(most)})
