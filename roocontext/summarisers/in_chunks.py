"""A conversation that no model can read at once, summarised in pieces: which questions to ask.

`questions` is a generator without I/O. It yields a question and is sent what came of it: the
answer, or that it was too long. It returns the summary. What does not fit is cut between messages,
each piece is summarised, and the summaries are put together in the same way, until one is left.
It ends: after so many questions, after so many levels, or when the room is too small for anything.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from roocontext.log.summary import SummaryRequest
from roocontext.summarisers.prompts import Question, question
from roocontext.summarisers.shorten import TOKEN, shorten, weight
from roocontext.summarisers.transcript import transcript

LEAST: Final = 1_000
"""The weight of the smallest piece that is worth a question."""

LEVELS: Final = 3
"""How often summaries of pieces may be summarised in pieces themselves."""

_MARGIN: Final = 0.9
_SEPARATOR: Final = 2


@dataclass(frozen=True, slots=True)
class TooLong:
    """The provider would not read a question; the numbers are its own, if it gave them."""

    tokens: int | None = None
    limit: int | None = None

    @property
    def share(self) -> float:
        """How much of the question may be left."""
        if self.tokens and self.limit and self.limit < self.tokens:
            return self.limit / self.tokens * _MARGIN
        return 0.5


class Unanswerable(Exception):
    """There is nothing to ask, or no way to ask it; `kind` is the kind of failure."""

    def __init__(self, kind: str, fact: str) -> None:
        super().__init__(fact)
        self.kind = kind


Asked: TypeAlias = Generator[Question, str | TooLong, str]


def asked(
    request: SummaryRequest, *, fits: int | None = None, most: int = 24, prompt: str | None = None
) -> Asked:
    """Ask for a summary; `fits` is how many tokens the model reads, `most` how many questions."""
    return _Asking(request, fits, most, prompt).run()


def grouped(texts: Sequence[str], room: int) -> list[list[str]]:
    """Cut between texts into groups that fit; a text that fits in no group loses its middle."""
    groups: list[list[str]] = []
    left = -1
    for text in (shorten(text, room) for text in texts):
        left -= weight(text) + _SEPARATOR
        if left < 0:
            groups.append([])
            left = room - weight(text)
        groups[-1].append(text)
    return groups


class _Asking:
    """What is still known and allowed while a summary is being asked for."""

    def __init__(
        self, request: SummaryRequest, fits: int | None, most: int, prompt: str | None
    ) -> None:
        self._request = request
        self._prompt = prompt
        self._most = self._left = most
        self._room = None if fits is None else fits * TOKEN
        """What a whole question may weigh, as far as it is known."""

    def run(self) -> Asked:
        texts = transcript(self._request.messages)
        if not texts and not self._request.previous:
            raise Unanswerable("nothing", "no message holds anything to summarise")
        for level in range(LEVELS + 1):
            while len(groups := self._groups(texts, self._whole([], level))) < 2:
                answer = yield from self._ask(self._whole(groups[0] if groups else [], level))
                if answer is not None:
                    return answer
            if level < LEVELS:
                texts = yield from self._pieces(texts)
        raise Unanswerable("too_long", f"summaries of pieces do not fit after {LEVELS} levels")

    def _pieces(self, texts: Sequence[str]) -> Generator[Question, str | TooLong, list[str]]:
        """Summarise each piece; the pieces get smaller when one turns out to be too long."""
        summaries: list[str] = []
        rest = list(texts)
        while rest:
            number = len(summaries) + 1
            groups = self._groups(rest, self._piece([], number))
            self._expect(len(groups) + 1)
            answer = yield from self._ask(self._piece(groups[0], number))
            if answer is not None:
                summaries.append(f"[part {number}]\n{answer}")
                rest = rest[len(groups[0]) :]
        return summaries

    def _ask(self, put: Question) -> Generator[Question, str | TooLong, str | None]:
        """Put a question. If it was too long there is less room from now on, and no answer."""
        self._expect(1)
        self._left -= 1
        answer = yield put
        if isinstance(answer, str):
            return answer
        self._room = int(put.weight * answer.share)
        return None

    def _groups(self, texts: Sequence[str], around: Question) -> list[list[str]]:
        """Cut the texts to what a question has room for."""
        if self._room is None:
            return [list(texts)]
        room = self._room - around.weight
        if room < LEAST:
            raise Unanswerable("too_long", f"no room is left beside {around.weight} characters")
        return grouped(texts, room)

    def _expect(self, questions: int) -> None:
        if questions > self._left:
            done = self._most - self._left
            raise Unanswerable(
                "too_long", f"{done + questions} calls would be needed of {self._most} allowed"
            )

    def _whole(self, texts: Sequence[str], level: int) -> Question:
        previous = self._request.previous
        if previous and self._room is not None:
            previous = shorten(previous, self._room // 3)
        return question(
            self._request, texts, previous=previous, merging=level > 0, prompt=self._prompt
        )

    def _piece(self, texts: Sequence[str], number: int) -> Question:
        return question(self._request, texts, part=number, prompt=self._prompt)
