"""The prompts for summaries, by style, and how a question to the model is composed.

A prompt is a Markdown file with two headings: `system`, and `instruction`, which is the last text
of the request. `_parts.md` holds the texts in between. The conversation and an earlier summary are
enclosed in tags that contain a digest of the enclosed text, so that no text can contain its own
closing tag.
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
from roocontext.registry import Registry
from roocontext.summarisers.transcript import clean, weight

_HEADING: Final = re.compile(r"^# (\w+)\n", re.MULTILINE)
_SCRATCHPAD: Final = re.compile(r"\s*<scratchpad>.*?</scratchpad>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Prompt:
    """A style: the system prompt and the final instruction."""

    system: str
    instruction: str


@dataclass(frozen=True, slots=True)
class Question:
    """One call of a model: the system prompt and the texts of the user message."""

    system: str
    texts: tuple[str, ...]

    @property
    def weight(self) -> int:
        """The weight of the whole question."""
        return weight(self.system) + sum(map(weight, self.texts))


prompts: Final[Registry[Prompt]] = Registry("roocontext.prompts")
"""The prompts by style. A plugin policy can register its own as an entry point of this group."""


def styles() -> tuple[str, ...]:
    """The names of all known styles."""
    return prompts.known()


def prompt_of(style: str) -> Prompt:
    """The prompt of a style; UnknownPlugin if there is none."""
    return prompts[style]


def read_prompt(file: Traversable) -> Prompt:
    """Read a prompt from its file."""
    parts = _sections(file)
    if parts.keys() != {"system", "instruction"}:
        raise InvalidOption(
            "A prompt must have two parts, `# system` and `# instruction`, and no other heading of"
            " one word on this level.",
            name="prompt",
        )
    return Prompt(**parts)


def question(
    request: SummaryRequest,
    texts: Sequence[str],
    *,
    previous: str | None = None,
    part: int | None = None,
    merging: bool = False,
    prompt: str | None = None,
) -> Question:
    """Compose the question about a whole conversation, a part of one, or summaries of parts.

    The prompt of the request takes precedence over `prompt`, and `prompt` over that of the style.
    """
    style, between = prompt_of(request.style), _between()
    last = request.instruction or style.instruction
    if request.longest is not None and part is None:
        # Two tokens to a word: models misjudge how long they write, and counters round up.
        words = between["longest"].format(words=max(1, request.longest // 2))
        last = f"{last}\n\n{words}"
    texts_sent = [enclosed("conversation", "\n\n".join(texts))]
    if previous:
        texts_sent.insert(
            0, f"{between['previous']}\n\n{enclosed('earlier_summary', clean(previous))}"
        )
    if part is not None:
        texts_sent.append(between["piece"].format(number=part))
    if merging:
        texts_sent.append(between["merge"])
    return Question(request.prompt or prompt or style.system, (*texts_sent, last))


def enclosed(name: str, text: str) -> str:
    """Enclose a text in tags that do not occur in it."""
    mark = f"{name}_{sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
    return f"<{mark}>\n{text}\n</{mark}>"


def without_scratchpad(answer: str) -> str:
    """The answer without the scratchpad that it may begin with."""
    scratchpad = _SCRATCHPAD.match(answer)
    return (answer[scratchpad.end() :] if scratchpad else answer).strip()


@cache
def _between() -> dict[str, str]:
    return _sections(_FOLDER / "_parts.md")


def _sections(file: Traversable) -> dict[str, str]:
    """The parts of a prompt file, by heading."""
    _, *parts = _HEADING.split(file.read_text(encoding="utf-8"))
    return {part: text.strip() for part, text in zip(parts[::2], parts[1::2], strict=True)}


_FOLDER: Final = files(__package__) / "prompts"

prompts.register("default", read_prompt(_FOLDER / "default.md"))
