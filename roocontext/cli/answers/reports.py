"""What `--json` prints of what was done or proved: the documents, as types.

They are as stable as those of `shapes`.
"""

from typing import Any, TypedDict

from roocontext.cli.answers.shapes import Gauge, MessageRow


class Appended(TypedDict):
    """The receipt of an append. `new` is False where the client id was known already."""

    session_id: str
    seq: int
    hash: str
    head_seq: int
    new: bool
    rewound_by: int | None


class OutcomeReport(TypedDict):
    """What condensing, truncating or clearing did, or would do.

    `status` is noop, cleared, condensed or truncated; tokens and bytes are those of the view before
    and after. `seqs` are the entries that were written. `view` is the view that a preview leaves.
    """

    session_id: str
    status: str
    detail: str
    reason: str
    policy: str
    trigger: str
    counter: str
    exact: bool
    window: int
    window_source: str
    tokens_before: int
    tokens_after: int
    excess: dict[str, int]
    bytes_before: int | None
    bytes_after: int | None
    hidden: int
    cleared: int
    seqs: list[int]
    compaction_ids: list[str]
    cost: float | None
    calls: int
    dry_run: bool
    view: list[MessageRow] | None


class RewoundReport(TypedDict):
    """What a rewind or its undo did; `seq` and `hash` are None where nothing changed.

    Of a rewind to a time or a message's id, `target` is the message that was found, and
    `target_time` its own time: the agent's, else when it was recorded.
    """

    session_id: str
    to: int
    seq: int | None
    hash: str | None
    head_seq: int
    left: int
    returned: int
    changed: bool
    undone: int | None
    target: int | None
    target_time: int | None


class Forked(TypedDict):
    """A session that begins as a copy of another up to entry `at`."""

    session_id: str
    forked_from: str
    at: int


class Pins(TypedDict):
    """The messages that no plan may hide; `changed` is None where they were only listed."""

    session_id: str
    pins: list[int]
    changed: bool | None


class Titled(TypedDict):
    """A session's title; `changed` is None where it was only shown."""

    session_id: str
    title: str | None
    changed: bool | None


class HeadRow(TypedDict):
    """The last entry of a log and its hash."""

    session_id: str
    seq: int
    hash: str


class Checked(TypedDict):
    """What was found in a session: the first bad entry, if one can be named, and the problem.

    `rebuilt` is how many rows of the caches were wrong and renewed.
    """

    session_id: str
    ok: bool
    entries: int
    head: HeadRow
    seq: int | None
    problem: str | None
    rebuilt: int | None


class Verified(TypedDict):
    """Whether everything that was checked is as it was written."""

    ok: bool
    sessions: list[Checked]


class RedactedReport(TypedDict):
    """What a redaction erased, or would erase.

    `copies`, the message itself among them, and `summaries`, which may quote it and stay, are pairs
    of a session's id and a seq. `changed` is False where the content was erased before. `erased`
    says that its bytes are out of the file and its log too; where it is False although something
    was done, another reader was in the way, or the engine does not promise it.
    """

    session_id: str
    seq: int
    copies: list[list[Any]]
    summaries: list[list[Any]]
    changed: bool
    dry_run: bool
    erased: bool


class PurgedReport(TypedDict):
    """The receipt of a purge: what there was, and when it was deleted.

    `changed` is False where the session was purged before: then all the rest is the first receipt.
    `copies` are the sessions that hold entries of it still, as its forks do; they are told when it
    is purged. `erased` says that its own bytes are out of the file and its log too, as for a
    redaction.
    """

    session_id: str
    entries: int
    messages: int
    bytes: int
    last_hash: str
    purged_at: int
    copies: list[str]
    changed: bool
    dry_run: bool
    erased: bool


class Finding(TypedDict):
    """One thing that was looked at. `status` is ok, note, warn or bad."""

    check: str
    status: str
    says: str


class Diagnosis(TypedDict):
    """Everything that `doctor` looked at; `ok` unless something is bad."""

    database: str
    ok: bool
    findings: list[Finding]


class SchemaRow(TypedDict):
    """The version that a schema has, and the one this release works with."""

    current: str | None
    wanted: str


class Upgraded(TypedDict):
    """The version before and after."""

    before: str | None
    after: str


class RevisionRow(TypedDict):
    """A migration of this release, and whether the database has it."""

    revision: str
    brought: str
    applied: bool


class History(TypedDict):
    """Every migration of this release, oldest first."""

    current: str | None
    revisions: list[RevisionRow]


class Demo(TypedDict):
    """What the demo left behind, and what happened to its session, in order.

    `context` is what a call of the model would send: the system prompt counts, which is no message.
    """

    database: str
    session_id: str
    did: list[str]
    ok: bool
    entries: int
    messages: int
    visible_messages: int
    context: Gauge
