"""How a model's name is read: `us.anthropic.claude-opus-4-6-v1:0` is of the family `claude`."""

import re
from collections.abc import Iterator
from typing import Final

_MAKER: Final = re.compile(r".*/|^(?:[a-z]+\.)*anthropic\.|^ft:")
_STEP: Final = re.compile(r"[-_:@\[][^-_:@\[]*$")


def bare(model: str) -> str:
    """The name without who offers it, in lower case; Claude's versions with a hyphen."""
    name = _MAKER.sub("", model.strip().lower())
    return name.replace(".", "-") if name.startswith("claude-") else name


def families(model: str) -> Iterator[str]:
    """The name as it is and bare, then shortened word by word; a dot parts no words.

    So gpt-4.1-mini is a gpt-4.1 and a gpt, but no gpt-4.
    """
    yield model
    name = bare(model)
    while name:
        yield name
        shorter = _STEP.sub("", name)
        if shorter == name:
            return
        name = shorter
