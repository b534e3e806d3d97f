"""What a committed plan did."""

from dataclasses import dataclass

from roocontext.log.plan import Action


@dataclass(frozen=True, slots=True)
class Committed:
    """What a plan did, or in a dry run would do: the view lost `hidden` and gained `rows`.

    `seq` is the summary, marker or clearing; `compaction_id` the condense or truncation id;
    `hidden` counts messages and `cleared` blocks.
    """

    session_id: str
    action: Action
    seq: int
    hash: str | None
    head_seq: int
    compaction_id: str | None
    rows: tuple[int, ...]
    hidden: int
    cleared: int
    dry_run: bool = False
