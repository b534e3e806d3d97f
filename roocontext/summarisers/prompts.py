"""What a model is asked when it is to summarise: the prompts by style, and how a question is made.

A prompt is a Markdown file with two parts, each under its heading: `system` and `instruction`, the
last text of the request. `_parts.md` holds the texts in between. The conversation and an earlier
summary are enclosed in marks that carry a digest of what they enclose, so that no text can contain
its own end.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from roocontext.log.summary import SummaryRequest
from roocontext.registry import Registry
from roocontext.summarisers.shorten import clean, weight

_HEADING: Final = re.compile(r"^# (\w+)\n", re.MULTILINE)
_SCRATCHPAD: Final = re.compile(r"\s*<scratchpad>.*?</scratchpad>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Prompt:
    """A style: who the model is to be, and what it is asked at the end."""

    system: str
    instruction: str


@dataclass(frozen=True, slots=True)
class Question:
    """One call of a model: the system prompt, and what the user says, text by text."""

    system: str
    texts: tuple[str, ...]

    @property
    def weight(self) -> int:
        """What all of it weighs."""
        return weight(self.system) + sum(map(weight, self.texts))


prompts: Final[Registry[Prompt]] = Registry("roocontext.prompts")
"""The prompts by style. A plugin policy brings its own as an entry point of this group."""


def styles() -> tuple[str, ...]:
    """Every style there is a prompt for."""
    return prompts.known()


def prompt_of(style: str) -> Prompt:
    """The prompt of a style; UnknownPlugin if there is none."""
    return prompts[style]


def read_prompt(file: Traversable) -> Prompt:
    """A prompt from its file."""
    return Prompt(**_sections(file))


def question(
    request: SummaryRequest,
    texts: Sequence[str],
    *,
    previous: str | None = None,
    part: int | None = None,
    merging: bool = False,
    prompt: str | None = None,
) -> Question:
    """What to ask about these texts: a whole conversation, a part of one, or summaries of parts.

    The request's own prompt counts before `prompt`, and that before the one of the style.
    """
    style, between = prompt_of(request.style), _between()
    last = request.instruction or style.instruction
    if request.longest is not None and part is None:
        # Two tokens to a word: models misjudge how long they write, and counters round up.
        words = between["longest"].format(words=max(1, request.longest // 2))
        last = f"{last}\n\n{words}"
    told = [marked("conversation", "\n\n".join(texts))]
    if previous:
        told.insert(0, f"{between['previous']}\n\n{marked('earlier_summary', clean(previous))}")
    if part is not None:
        told.append(between["piece"].format(number=part))
    if merging:
        told.append(between["merge"])
    return Question(request.prompt or prompt or style.system, (*told, last))


def marked(name: str, text: str) -> str:
    """A text between a beginning and an end that do not occur in it."""
    mark = f"{name}_{sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
    return f"<{mark}>\n{text}\n</{mark}>"


def spoken(answer: str) -> str:
    """An answer without the scratchpad that it may begin with."""
    found = _SCRATCHPAD.match(answer)
    return (answer[found.end() :] if found else answer).strip()


@cache
def _between() -> dict[str, str]:
    return _sections(_FOLDER / "_parts.md")


def _sections(file: Traversable) -> dict[str, str]:
    """The parts of a prompt's file, by their headings."""
    _, *parts = _HEADING.split(file.read_text(encoding="utf-8"))
    return {part: text.strip() for part, text in zip(parts[::2], parts[1::2], strict=True)}


_FOLDER: Final = files(__package__) / "prompts"

prompts.register("default", read_prompt(_FOLDER / "default.md"))
