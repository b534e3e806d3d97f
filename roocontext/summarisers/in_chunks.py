"""Summarises a conversation in pieces when the model cannot read it at once.

`ask_in_chunks` is a generator without I/O. It yields a question, receives the answer or TooLong,
and returns the summary. A conversation that does not fit is cut between messages; each piece is
summarised, and the summaries are combined in the same way until one is left. The generator always
ends: the numbers of questions and levels are bounded, and so is the smallest piece.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from roocontext.log.summary import SummaryRequest
from roocontext.summarisers.prompts import Question, question
from roocontext.summarisers.transcript import TOKEN, shorten, transcript, weight

LEAST: Final = 1_000
"""The weight of the smallest piece worth a question."""

LEVELS: Final = 3
"""The most times that summaries of pieces may themselves be summarised in pieces."""

_MARGIN: Final = 0.9
_SEPARATOR: Final = 2


@dataclass(frozen=True, slots=True)
class TooLong:
    """The provider refused a question as too long, with its own numbers if it gave any."""

    tokens: int | None = None
    limit: int | None = None

    @property
    def share(self) -> float:
        """The share of the question that the next attempt may keep."""
        if self.tokens and self.limit and self.limit < self.tokens:
            return self.limit / self.tokens * _MARGIN
        return 0.5


class Unanswerable(Exception):
    """Nothing can be asked; `kind` is the kind of failure that SummaryFailed reports."""

    def __init__(self, kind: str, fact: str) -> None:
        super().__init__(fact)
        self.kind = kind


Questions: TypeAlias = Generator[Question, str | TooLong, str]


def ask_in_chunks(
    request: SummaryRequest, *, fits: int | None = None, most: int = 24, prompt: str | None = None
) -> Questions:
    """Ask for a summary with at most `most` questions of at most `fits` tokens each."""
    return _Asking(request, fits, most, prompt).run()


def grouped(texts: Sequence[str], room: int) -> list[list[str]]:
    """Divide texts into groups that fit; a text that is too long by itself loses its middle."""
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
    """The state of one summary: the questions left and the room that is known."""

    def __init__(
        self, request: SummaryRequest, fits: int | None, most: int, prompt: str | None
    ) -> None:
        self._request = request
        self._prompt = prompt
        self._most = self._left = most
        self._room = None if fits is None else fits * TOKEN
        """The most a whole question may weigh; None until a limit is known."""

    def run(self) -> Questions:
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
        """Summarise each piece. When the provider refuses one as too long, the rest get smaller."""
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
        """Ask a question. If it was too long, reduce the room and return None."""
        self._expect(1)
        self._left -= 1
        answer = yield put
        if isinstance(answer, str):
            return answer
        self._room = int(put.weight * answer.share)
        return None

    def _groups(self, texts: Sequence[str], around: Question) -> list[list[str]]:
        """Divide the texts into groups that fit into a question."""
        if self._room is None:
            return [list(texts)]
        room = self._room - around.weight
        if room < LEAST:
            raise Unanswerable("too_long", f"the prompt of weight {around.weight} leaves no room")
        return grouped(texts, room)

    def _expect(self, questions: int) -> None:
        if questions > self._left:
            done = self._most - self._left
            raise Unanswerable(
                "too_long", f"{done + questions} calls are needed, and {self._most} are allowed"
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
