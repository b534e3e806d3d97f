"""What a model is told when it is to summarise: the prompts, and how a question is made of them.

A prompt is a file beside this module, `prompts/STYLE.md`: a part for the system and one for what
the user says last, each under its heading. `_parts.md` has what is said in between. Conversation
and earlier summary stand between marks that carry a digest of what is in them, so that no text can
contain its own end.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from roocontext.errors import InvalidOption
from roocontext.log.summary import SummaryRequest
from roocontext.summarisers.cutting import clean, weight

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


def styles() -> tuple[str, ...]:
    """Every style there is a prompt for."""
    names = (entry.name for entry in _folder().iterdir())
    return tuple(sorted(name[:-3] for name in names if re.fullmatch(r"[^_].*\.md", name)))


def prompt_of(style: str) -> Prompt:
    """The prompt of a style."""
    if style not in styles():
        raise InvalidOption(f"style is one of {', '.join(styles())}.", name="style")
    return Prompt(**_read(style))


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
    style, between = prompt_of(request.style), _read("_parts")
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
def _read(name: str) -> dict[str, str]:
    """The parts of a prompt's file, by their headings."""
    text = (_folder() / f"{name}.md").read_text(encoding="utf-8")
    _, *parts = _HEADING.split(text)
    return {part: said.strip() for part, said in zip(parts[::2], parts[1::2], strict=True)}


def _folder() -> Traversable:
    return files(__package__) / "prompts"
