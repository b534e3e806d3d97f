"""Model names: `us.anthropic.claude-opus-4-6-v1:0` belongs to the family `claude`."""

import re
from collections.abc import Iterator
from typing import Final

from roocontext.log.encoding import check_model_size

_MAKER: Final = re.compile(r".*/|^(?:[a-z]+\.)*anthropic\.|^ft:")
_STEP: Final = re.compile(r"[-_:@\[][^-_:@\[]*$")


def bare(model: str) -> str:
    """The name without its provider, in lower case; Claude's versions are written with a hyphen."""
    check_model_size(model)
    name = _MAKER.sub("", model.strip().lower())
    return name.replace(".", "-") if name.startswith("claude-") else name


def families(model: str) -> Iterator[str]:
    """Yield the name, then the bare name, then shorter ones: trailing words are removed one by one.

    A dot does not separate words: gpt-4.1-mini belongs to gpt-4.1 and gpt, but not to gpt-4.
    """
    name = bare(model)
    yield model
    while name:
        yield name
        shorter = _STEP.sub("", name)
        if shorter == name:
            return
        name = shorter
