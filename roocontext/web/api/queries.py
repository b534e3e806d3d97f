"""The parameters of the queries of the API."""

from typing import Annotated, Final, Literal, Self, TypeAlias

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from roocontext.log.entries import Kind
from roocontext.search.passages import Speaker
from roocontext.search.query import Among, Order
from roocontext.web.api.inputs import (
    ContentAs,
    FlagInput,
    FormName,
    LimitInput,
    Parameters,
    PointInput,
    SeqInput,
    SeqOrZero,
    TimeInput,
    number_in,
)

MOST_MARKS: Final = 500
"""The most marks of a timeline, as many as the picture of a page has."""

KindInput: TypeAlias = Annotated[
    Kind, Field(strict=False), WithJsonSchema({"enum": list(Kind), "type": "string"})
]


class ContentQuery(Parameters):
    """The encoding of contents: JSON, or texts that hold JSON."""

    content: ContentAs = "json"


class AtPoint(Parameters):
    """A moment: an entry, or a time. `recorded` compares times of recording."""

    as_of: PointInput | None = None
    recorded: FlagInput = False


class TimeRange(Parameters):
    """From a time on, and before another."""

    since: TimeInput | None = None
    until: TimeInput | None = None
    recorded: FlagInput = False


class SessionsQuery(TimeRange, ContentQuery):
    """The sessions to list. `where` is `key=value` of a string in the metadata, repeatable."""

    text: str = ""
    parent: str | None = None
    where: list[str] = []
    model: str | None = None
    limit: LimitInput = 20
    after: str | None = None


class ModelQuery(Parameters):
    """The model whose window is used; by default that of the newest message."""

    model: str | None = None


class EntriesQuery(ContentQuery):
    """The entries to read: those after an entry, or the newest before an entry or the end.

    `kind`, `role` and `state` may be repeated. A role is compared with the speaker, so that `tool`
    selects the outputs of tools.
    """

    after: SeqOrZero | None = None
    before: SeqInput | None = None
    limit: LimitInput = 100
    kind: list[KindInput] = []
    role: list[str] = []
    state: list[Literal["visible", "hidden", "rewound"]] = []

    @model_validator(mode="after")
    def _one_end(self) -> Self:
        if self.after is not None and self.before is not None:
            raise ValueError("Give `after` or `before`, not both.")
        return self


class MessageQuery(ContentQuery):
    """The agent's own id of a message."""

    message_id: str


class NotesQuery(AtPoint, ContentQuery):
    """The kind of the notes to read, and the message that they are about.

    Without a `target`, notes about any message and about none are read. `newest` leaves only the
    last note about each target.
    """

    note: str
    target: SeqInput | None = None
    newest: FlagInput = False
    after: SeqOrZero = 0
    limit: LimitInput = 100


class FrameQuery(AtPoint, ContentQuery):
    """The moment whose system prompt and tools are read, by default now."""


class TokensQuery(AtPoint):
    """A counter, such as `o200k_base`, and the entry after which it begins to count."""

    counter: str
    after: SeqOrZero = 0


class TimelineQuery(Parameters):
    """The most marks to read: stretches, entries that hide others, and rewinds."""

    marks: Annotated[int, Field(ge=4, le=MOST_MARKS), BeforeValidator(number_in)] = MOST_MARKS


class AppendQuery(Parameters):
    """With `skip_stored`, messages of a list that were stored before are skipped."""

    skip_stored: FlagInput = False


class PurgedQuery(Parameters):
    """A text in the ids of the sessions, and the time of their purge."""

    text: str = ""
    since: TimeInput | None = None
    until: TimeInput | None = None
    limit: LimitInput = 20
    after: str | None = None


class ViewQuery(AtPoint, ContentQuery):
    """The part of the view to read: the first of those after a message, or the last before one."""

    after: SeqInput | None = None
    limit: LimitInput | None = None
    before: SeqInput | None = None
    last: LimitInput | None = None


class MessagesQuery(AtPoint, ContentQuery):
    """The form of a provider, and the model that will be asked."""

    form: FormName = "anthropic"
    model: str | None = None
    dialect: str | None = None


class DiffQuery(ContentQuery):
    """Two moments; the second is by default now."""

    from_: Annotated[PointInput, Field(alias="from")]
    to: PointInput | None = None
    recorded: FlagInput = False


class VerificationQuery(Parameters):
    """A saved head, which the log has to continue."""

    saved_seq: SeqOrZero | None = None
    saved_hash: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None

    @model_validator(mode="after")
    def _both(self) -> Self:
        if (self.saved_seq is None) is not (self.saved_hash is None):
            raise ValueError("A saved head has `saved_seq` and `saved_hash`.")
        return self


class SearchQuery(TimeRange):
    """The words of a search, and where to look for them."""

    q: Annotated[str, Field(min_length=1)]
    session: str | None = None
    family: str | None = None
    role: Speaker | None = None
    tool: str | None = None
    where: list[str] = []
    among: Among = "all"
    order: Order = "best"
    limit: Annotated[int, Field(ge=1, le=200), BeforeValidator(number_in)] = 20
    after: str | None = None
    context: Annotated[int, Field(ge=0, le=20), BeforeValidator(number_in)] = 0


class UsageQuery(ModelQuery):
    """The messages that are counted: those in the view, or `everything`.

    With `family`, the calls of the descendants are added.
    """

    everything: FlagInput = False
    family: FlagInput = False


class SpendingQuery(TimeRange):
    """The way to group the calls, and the metadata of the sessions: `key=value`, repeatable."""

    where: list[str] = []
    by: Literal["day", "model", "session"] = "day"


class ExportQuery(Parameters):
    """The format of an export, and whether the sessions of sub-agents are exported too."""

    to: Literal[
        "jsonl",
        "markdown",
        "html",
        "anthropic",
        "openai",
        "openai-responses",
        "gemini",
        "bedrock-converse",
    ] = "jsonl"
    family: FlagInput = False


class EventsQuery(Parameters):
    """The event after which the stream begins; the header Last-Event-ID has precedence."""

    after: str | None = None
