"""How much is built, and how often it is measured."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is built, and how often it is measured."""

    long: int = 100_000
    short: int = 1_000
    middle: int = 20_000
    condensations: int = 100
    hidden: int = 10_000
    few: int = 100
    batch: int = 1_000
    listed: int = 1_000
    sessions: int = 10_000
    searched: int = 100_000
    shown: int = 200
    controls: int = 1_000
    aged: int = 1_000
    aged_visible: int = 2_000
    rewritten: tuple[int, int] = (100, 300)
    points: int = 12
    commits: int = 40
    reads: int = 40
    heavy: int = 8
    folds: int = 12
    imports: int = 9
    readers: int = 1_000

    @property
    def conversations(self) -> tuple[int, int]:
        """How long the conversations of a framework are: the long one first, in the same file.

        A write-ahead log of SQLite grows until it is checkpointed, and is written over from then
        on. While one grows and another does not, their fsyncs take different times.
        """
        return self.hidden, self.few


FULL = Sizes()
QUICK = Sizes(
    long=10_000,
    middle=4_000,
    condensations=20,
    hidden=2_000,
    sessions=2_000,
    searched=20_000,
    aged=300,
    aged_visible=500,
    points=6,
    commits=15,
    reads=15,
    heavy=4,
    folds=6,
    imports=3,
    readers=200,
)
TINY = Sizes(
    long=300,
    short=100,
    middle=100,
    condensations=4,
    hidden=60,
    few=20,
    batch=20,
    listed=20,
    sessions=20,
    searched=20,
    shown=40,
    controls=100,
    aged=8,
    aged_visible=40,
    rewritten=(6, 12),
    points=2,
    commits=1,
    reads=1,
    heavy=1,
    folds=1,
    imports=1,
    readers=5,
)
