"""What a shell is offered when Tab is pressed: sessions, and the names that options know.

typer asks the functions here for values and speaks to the shells. What it leaves open is done here:
each shell gets only what it can take as one word, and bash, which parts words at its own signs
(`:`, `=`, `@`), gets no more than what follows the last of them, quoted.
"""

import io
import os
import shlex
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from typing import NamedTuple, TypeAlias

import typer

import roocontext
from roocontext.cli import opening
from roocontext.cli.screens.wording import plain
from roocontext.errors import RooContextError

Offers: TypeAlias = list[tuple[str, str]]
"""What may be inserted, each with what is told of it where the shell can."""

AIMS = ("manage", "condense", "truncate", "clear")

_VARIABLE = "_ROOCONTEXT_COMPLETE"
_MOST = 10_000
"""How many ids may be offered: fewer than all, and the shell completes to a wrong one."""

_LONGEST = 60
_BREAKS = frozenset(":=@")
_QUOTING = ("bash", "zsh", "fish")
"""The shells that insert a word quoted: zsh and fish by themselves."""

_QUOTES = ("'", '"')
_AS_IT_IS = frozenset("-_./:=@+,")
_TAKEN = frozenset("-_.:/@#+,=~ ")
_TOLD = frozenset(" .,-_/+")


def sessions(ctx: typer.Context, incomplete: str) -> Offers:
    """The sessions that begin like this, and `last`."""
    url = opening.chosen(ctx)
    mark = opening.LITERAL if incomplete.startswith(opening.LITERAL) else ""
    beginning = incomplete.removeprefix(mark)
    offers = [] if mark else [(opening.LAST, "the one with the newest entry")]
    with suppress(RooContextError), roocontext.Store.open(url, upgrade=False, read_only=True) as s:
        found = s.find(beginning, limit=_MOST) if beginning else s.sessions()
        offers += [(mark + _name(info.session_id, mark), info.title or "") for info in found]
        return _fit(offers)
    return []


def sessions_or_new(ctx: typer.Context, incomplete: str) -> Offers:
    """As `sessions`, and `new`."""
    return [*sessions(ctx, incomplete), (opening.NEW, "begins a session")]


def policies() -> Offers:
    """The policies that are known."""
    from roocontext.policies.builtin import policies as known  # noqa: PLC0415 - heavy

    return _named(known.known())


def summarisers() -> Offers:
    """The summarisers that are known."""
    from roocontext.summarisers import summarisers as known  # noqa: PLC0415 - heavy

    return _named(known.known())


def models() -> Offers:
    """The models whose windows are known."""
    from roocontext.tokens.limits import models as known  # noqa: PLC0415 - only what asks reads it

    return [(name, f"{context:,} tokens") for name, context in known().items()]


def formats() -> Offers:
    """The formats of content."""
    from roocontext.log.readings import readers  # noqa: PLC0415 - likewise

    return _named(readers.known())


def roles(ctx: typer.Context) -> Offers:
    """The roles of the format that is given."""
    from roocontext.log.readings import readers  # noqa: PLC0415 - likewise

    name = ctx.params.get("content_format") or "anthropic"
    return _named(readers[name].roles if name in readers.known() else ())


def aims() -> Offers:
    """What can be previewed."""
    return _named(AIMS)


@contextmanager
def answering() -> Iterator[None]:
    """Run what answers a shell; bash's answer is made fit for it."""
    if os.environ.get(_VARIABLE) != "complete_bash":
        yield
        return
    line = _Line.of(os.environ["COMP_WORDS"].split("\n"), int(os.environ["COMP_CWORD"]))
    os.environ |= {"COMP_WORDS": shlex.join(line.words), "COMP_CWORD": str(len(line.words) - 1)}
    answer = io.StringIO()
    try:
        with redirect_stdout(answer):
            yield
    finally:
        for found in answer.getvalue().splitlines():
            if found.startswith(line.typed) and _is_shown(found):
                sys.stdout.write(line.rest(found) + "\n")


class _Line(NamedTuple):
    """A line of bash up to the cursor: its words, the value at the cursor, and what bash replaces.

    bash replaces what follows the first `kept` characters of the value.
    """

    words: list[str]
    typed: str
    kept: int
    quote: str

    @classmethod
    def of(cls, parts: Sequence[str], at: int) -> "_Line":
        """From the parts that bash has cut the line into."""
        raw = [*parts[:at], *(parts[at : at + 1] or [""])]
        words: list[str] = []
        glued = False
        for part in raw:
            breaks = bool(part) and set(part) <= _BREAKS
            if part and (glued or (breaks and _goes_on(words, part))):
                words[-1] += _bare(part)
            else:
                words.append(_bare(part))
            glued = breaks
        last = "" if set(raw[-1]) <= _BREAKS else _bare(raw[-1])
        name, sign, value = words[-1].partition("=")
        typed = value if sign and name.startswith("--") else words[-1]
        kept = len(typed) - len(last)
        at_sign = typed[:kept].endswith("@")  # which bash takes along, as it does for host names
        return cls(words, typed, kept - at_sign, raw[-1][:1] if last else "")

    def rest(self, found: str) -> str:
        """What bash is to put in the place of what it replaces."""
        rest = found[self.kept :]
        return rest if self.quote in _QUOTES else _quoted(rest)


def _goes_on(words: list[str], part: str) -> bool:
    """Whether bash has parted a word here: neither the program's nor a command's."""
    before = words[-1]
    return len(words) > 2 and (not before.startswith("-") or part == "=")


def _bare(part: str) -> str:
    """A part of a line as a program gets it; it may end within quotes."""
    escapes = len(part) - len(part.rstrip("\\"))
    whole = part[:-1] if escapes % 2 else part
    for end in ("", *_QUOTES):
        with suppress(ValueError):
            return "".join(shlex.split(whole + end))
    return whole


def _quoted(text: str) -> str:
    return "".join(
        one if one.isalnum() or one in _AS_IT_IS or not one.isascii() else f"\\{one}"
        for one in text
    )


def _name(session_id: str, mark: str) -> str:
    """The id as it is typed: after the mark where it would mean something else."""
    means_more = session_id in (opening.LAST, opening.NEW) or session_id.startswith(opening.LITERAL)
    return opening.LITERAL + session_id if means_more and not mark else session_id


def _named(names: Iterable[str]) -> Offers:
    return [(name, "") for name in names]


def _fit(offers: Offers) -> Offers:
    """Those that the asking shell takes as one word; what is told of them acts on none."""
    quotes = os.environ.get(_VARIABLE, "").endswith(_QUOTING)
    fits: Callable[[str], bool] = _is_taken if quotes else _is_word
    return [(value, _told(told)) for value, told in offers if fits(value)]


def _told(text: str) -> str:
    """A title without what a shell could take for more than a text."""
    kept = "".join(one if _is_letter(one) or one in _TOLD else " " for one in text)
    return " ".join(kept.split())[:_LONGEST]


def _is_word(text: str) -> bool:
    """Whether it is a word that nothing has to quote."""
    bare = text.replace("-", "").replace("_", "").replace(".", "")
    return bare.isascii() and bare.isalnum() and not text.startswith("-")


def _is_taken(text: str) -> bool:
    """Whether it is taken as one word once it is quoted."""
    return (
        all(_is_letter(one) or one in _TAKEN for one in text)
        and plain(text) == text == " ".join(text.split())
        and not text.startswith("-")
        and _is_shown(text)
    )


def _is_shown(text: str) -> bool:
    """Whether standard output has these characters."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return text.encode(encoding, "ignore").decode(encoding) == text


def _is_letter(character: str) -> bool:
    return unicodedata.category(character)[0] in "LMN"
