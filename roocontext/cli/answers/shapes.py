"""What `--json` prints of what is looked at: the documents, as types.

They are stable: a name is never given another meaning, and none goes away without a new major
version. Times are milliseconds since the epoch, a seq is an entry's place in its session.
"""

from typing import Any, TypedDict


class Gauge(TypedDict):
    """How much of a model's context window the view takes.

    `limit` is None where no model is known. `limit_source` says where it comes from: `table:` and a
    line of the table, the name of an environment variable, `override` where it was given, or
    `default` for a model that the table does not know.
    """

    tokens: int
    exact: bool
    counter: str
    model: str | None
    limit: int | None
    limit_source: str | None


class SessionRow(TypedDict):
    """A session of the list. `messages` and `bytes` count all that was ever said.

    `visible_bytes` are those of the visible messages as they were written: outputs that are cleared
    count in full. Unless the tokens are counted, `context` is guessed by them and so too high then.
    """

    session_id: str
    title: str | None
    metadata: Any
    created_at: int
    updated_at: int
    head_seq: int
    last_seq: int
    messages: int
    bytes: int
    visible_messages: int
    visible_bytes: int
    context: Gauge


class Sessions(TypedDict):
    """The sessions of a database, the newest first. `more` says that the list was cut."""

    sessions: list[SessionRow]
    more: bool


class MessageRow(TypedDict):
    """A message as the model sees it: cleared blocks hold their placeholder."""

    seq: int
    kind: str
    role: str
    content: Any
    format: str
    ts: int | None
    recorded_at: int
    message_id: str | None
    compaction_id: str | None
    cleared: list[int]


class Shown(TypedDict):
    """The effective history right after entry `seq`."""

    session_id: str
    title: str | None
    seq: int
    head_seq: int
    context: Gauge
    messages: list[MessageRow]


class HiderRow(TypedDict):
    """An entry that hides, takes back or clears another.

    `trigger` is manual, auto, or what an agent calls it.
    """

    seq: int
    kind: str
    recorded_at: int
    trigger: str | None


class EntryRow(TypedDict):
    """An entry of the log as it was written, and what became of it.

    `kind` is message, summary, marker, companion, clearing, rewind or note; of a note, `note` says
    what it is about: title, metadata, pin, origin, redaction, or what an agent or the manager
    calls it. `details` are what an entry that acts does. `cleared` are pairs of a block and the
    entry that cleared it.
    """

    seq: int
    kind: str
    role: str | None
    content: Any
    format: str | None
    ts: int | None
    recorded_at: int
    message_id: str | None
    client_id: str | None
    model: str | None
    usage: Any
    compaction_id: str | None
    note: str | None
    target: int | None
    details: Any
    visible: bool
    hidden_by: int | None
    hiders: list[HiderRow]
    condense_parent: int | None
    truncation_parent: int | None
    rewound_by: int | None
    cleared: list[list[int]]
    redacted: bool


class Stretch(TypedDict):
    """Entries that follow each other, and the entry they follow.

    `visible` is how many of the messages the model sees. Entries that are not live were taken back
    by `rewound_by`.
    """

    lo: int
    hi: int
    after: int
    messages: int
    visible: int
    live: bool
    rewound_by: int | None


class Hiding(TypedDict):
    """A summary, marker or clearing.

    `hides` are the ranges of seq it stands for, `clears` pairs of a seq and a block; `hidden_by`
    is what hides it. `messages` is how many messages it keeps out of the view now.
    """

    seq: int
    kind: str
    live: bool
    hidden_by: int | None
    hides: list[list[int]]
    clears: list[list[int]]
    messages: int
    record: Any


class Rewinding(TypedDict):
    """A rewind: from where to where it went, which rewind it took back, and which took it back.

    `came_from` and `reached` are the last entries that were live before it and after it: a rewind
    that goes to another rewind goes to where that one went.
    """

    seq: int
    to: int
    came_from: int
    reached: int
    undoes: int | None
    undone_by: int | None


class Tree(TypedDict):
    """What hides what, and the branches that the rewinds make."""

    session_id: str
    title: str | None
    entries: int
    messages: int
    visible_messages: int
    stretches: list[Stretch]
    hidings: list[Hiding]
    rewinds: list[Rewinding]


class Difference(TypedDict):
    """How the view after entry `new` differs from that after entry `old`.

    `cleared` and `restored` are pairs of a seq and a block.
    """

    session_id: str
    old: int
    new: int
    left: list[MessageRow]
    came: list[MessageRow]
    cleared: list[list[int]]
    restored: list[list[int]]


class Tally(TypedDict):
    """What the messages of a role, or the calls and results of a tool, cost."""

    name: str
    count: int
    tokens: int


class ModelUsage(TypedDict):
    """What the provider reported of the calls of a model.

    `ratio` is what the estimates that were made before the calls must be multiplied by; `cost` is
    what was recorded.
    """

    model: str | None
    calls: int
    input: int
    output: int
    cached: int
    estimated: int | None
    ratio: float | None
    cost: float | None


class SummaryUsage(TypedDict):
    """What the summaries of a session have cost, as far as their makers told."""

    count: int
    calls: int
    input: int
    output: int
    cost: float | None


class UsageReport(TypedDict):
    """What the view costs by role and by tool, and what the calls of models have cost."""

    session_id: str
    everything: bool
    context: Gauge
    roles: list[Tally]
    tools: list[Tally]
    models: list[ModelUsage]
    summaries: SummaryUsage


class StatsReport(TypedDict):
    """How much is visible, hidden and taken back, of one session or of all (`session_id` None).

    Bytes are those of the messages as they were written: what is cleared counts in full.
    """

    session_id: str | None
    sessions: int
    entries: int
    messages: int
    bytes: int
    visible_messages: int
    visible_bytes: int
    hidden_messages: int
    hidden_bytes: int
    rewound_messages: int
    rewound_bytes: int
