"""What the import of one source found and wrote."""

from dataclasses import dataclass, field

from roocontext.formats.events import Event, Problem, Source


@dataclass(slots=True)
class Played:
    """What the import of one source found and wrote.

    `again` counts the messages that were hidden and written again, because the source sends what
    a compaction kept in an order that only this gives.
    """

    source: Source
    session_id: str
    events: int = 0
    messages: int = 0
    notes: int = 0
    controls: int = 0
    again: int = 0
    created: bool = False
    rewound: bool = False
    forked_from: str | None = None
    problems: list[Problem] = field(default_factory=list)

    @property
    def new(self) -> int:
        """How many entries were written, or would be."""
        return self.messages + self.notes + self.controls

    def report(self, event: Event | None, what: str) -> None:
        """Report what is wrong with an event of the source."""
        line = None if event is None else event.line
        self.problems.append(Problem(self.source.path, line, what.rstrip(".")))
