"""What the import of one source found and wrote."""

from dataclasses import dataclass, field

from roocontext.formats.events import Problem, Source


@dataclass(slots=True)
class Played:
    """What the import of one source found and wrote."""

    source: Source
    session_id: str
    events: int = 0
    messages: int = 0
    notes: int = 0
    controls: int = 0
    created: bool = False
    rewound: bool = False
    forked_from: str | None = None
    problems: list[Problem] = field(default_factory=list)

    @property
    def new(self) -> int:
        """How many entries were written, or would be."""
        return self.messages + self.notes + self.controls
