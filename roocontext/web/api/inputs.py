"""The parameters and documents that requests have. Unknown names are refused, never ignored."""

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any, Final, Literal, Self, TypeAlias, get_origin
from urllib.parse import parse_qsl

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from roocontext.log.encoding import MAX_INTEGER, MIN_INTEGER
from roocontext.reports.document import Text
from roocontext.search.passages import Speaker
from roocontext.search.query import Among, Order
from roocontext.web.api.json_text import read_json_text
from roocontext.web.errors import InvalidDocument, MalformedRequest

MOST_ENTRIES: Final = 1_000
_NUMBER: Final = re.compile(r"-?[0-9]{1,19}")


def _number(value: Any) -> Any:
    return int(value) if isinstance(value, str) and _NUMBER.fullmatch(value) else value


def _flag(value: Any) -> Any:
    return {"true": True, "false": False}.get(value, value) if isinstance(value, str) else value


def _point(value: Any) -> Any:
    """An entry's number, or a time with its offset."""
    if not isinstance(value, str) or _NUMBER.fullmatch(value):
        return _number(value)
    return _time(value)


def _time(value: Any) -> Any:
    if not isinstance(value, str):
        raise ValueError("Give a time as a text.")  # noqa: TRY004 - pydantic takes no other
    when = datetime.fromisoformat(value)
    if when.tzinfo is None:
        raise ValueError("A time needs its offset, such as `2026-01-31T09:30:00Z`.")
    return when


_Seq: TypeAlias = Annotated[int, Field(ge=1, le=MAX_INTEGER), BeforeValidator(_number)]
_From: TypeAlias = Annotated[int, Field(ge=0, le=MAX_INTEGER), BeforeValidator(_number)]
_Limit: TypeAlias = Annotated[int, Field(ge=1, le=MOST_ENTRIES), BeforeValidator(_number)]
_Flag: TypeAlias = Annotated[bool, BeforeValidator(_flag)]
_When: TypeAlias = Annotated[datetime, BeforeValidator(_time)]
_Point: TypeAlias = Annotated[
    Annotated[int, Field(ge=0, le=MAX_INTEGER)] | datetime, BeforeValidator(_point)
]
_Millis: TypeAlias = Annotated[int, Field(ge=MIN_INTEGER, le=MAX_INTEGER)]
Form: TypeAlias = Literal["anthropic", "openai", "openai-responses", "gemini"]
ContentAs: TypeAlias = Literal["json", "text"]


class Input(BaseModel):
    """The base of the parameters and documents of requests."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, protected_namespaces=())


class Parameters(Input):
    """The parameters of a query string."""


class AtPoint(Parameters):
    """A moment: an entry, or a time. `recorded` compares times of recording."""

    as_of: _Point | None = None
    recorded: _Flag = False


class TimeRange(Parameters):
    """From a time on, and before another."""

    since: _When | None = None
    until: _When | None = None
    recorded: _Flag = False


class SessionsQuery(TimeRange):
    """The sessions to list. `where` is `key=value` of a string in the metadata, repeatable."""

    text: str = ""
    parent: str | None = None
    where: list[str] = []
    model: str | None = None
    limit: _Limit = 20
    after: str | None = None


class ModelQuery(Parameters):
    """The model whose window is used; by default that of the newest message."""

    model: str | None = None


class EntriesQuery(Parameters):
    """The entries to read: those after an entry, or the newest before an entry or the end.

    `kind`, `role` and `state` may be repeated. A role is compared with the speaker, so that `tool`
    selects the outputs of tools.
    """

    after: _From | None = None
    before: _Seq | None = None
    limit: _Limit = 100
    kind: list[str] = []
    role: list[str] = []
    state: list[Literal["visible", "hidden", "rewound"]] = []
    content: ContentAs = "json"

    @model_validator(mode="after")
    def _one_end(self) -> Self:
        if self.after is not None and self.before is not None:
            raise ValueError("Give `after` or `before`, not both.")
        return self


class ContentQuery(Parameters):
    """Whether contents are sent as JSON, or as texts that hold JSON."""

    content: ContentAs = "json"


class ViewQuery(AtPoint):
    """The part of the view to read: the first of those after a message, or the last before one."""

    after: _Seq | None = None
    limit: _Limit | None = None
    before: _Seq | None = None
    last: _Limit | None = None
    content: ContentAs = "json"


class MessagesQuery(AtPoint):
    """The form of a provider, and the model that will be asked."""

    form: Form = "anthropic"
    model: str | None = None
    dialect: str | None = None


class DiffQuery(Parameters):
    """Two moments; the second is by default now."""

    from_: Annotated[_Point, Field(alias="from")]
    to: _Point | None = None
    recorded: _Flag = False
    content: ContentAs = "json"


class VerificationQuery(Parameters):
    """A saved head, which the log has to continue."""

    saved_seq: _From | None = None
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
    limit: Annotated[int, Field(ge=1, le=200), BeforeValidator(_number)] = 20
    after: str | None = None
    context: Annotated[int, Field(ge=0, le=20), BeforeValidator(_number)] = 0


class UsageQuery(ModelQuery):
    """The messages that are counted: those in the view, or `everything`.

    With `family`, the calls of the descendants are added.
    """

    everything: _Flag = False
    family: _Flag = False


class SpendingQuery(TimeRange):
    """The way to group the calls."""

    by: Literal["day", "model", "session"] = "day"


class ExportQuery(Parameters):
    """The format of an export, and whether the sessions of sub-agents are exported too."""

    to: Literal[
        "jsonl", "markdown", "html", "anthropic", "openai", "openai-responses", "gemini"
    ] = "jsonl"
    family: _Flag = False


class EventsQuery(Parameters):
    """The event after which the stream begins; the header Last-Event-ID has precedence."""

    after: str | None = None


class InputDocument(Input):
    """The document in the body of a request.

    A field of any JSON may be given as text instead: `content_json` in place of `content`.
    """

    @model_validator(mode="after")
    def _once(self) -> Self:
        for name in self.model_fields_set:
            if name.endswith("_json") and name.removesuffix("_json") in self.model_fields_set:
                raise ValueError(f"Give `{name}` or `{name.removesuffix('_json')}`, not both.")
        return self

    def value(self, name: str) -> Any:
        """The value of a field of any JSON."""
        text = getattr(self, f"{name}_json", None)
        return getattr(self, name) if text is None else read_json_text(text, f"{name}_json")


class NewSession(InputDocument):
    """A session to create."""

    session_id: str | None = None
    title: str | None = None
    metadata: dict[str, Any] | None = None
    parent: str | None = None


class SessionToOpen(InputDocument):
    """The title, metadata and parent of a session, if it has to be created."""

    title: str | None = None
    metadata: dict[str, Any] | None = None
    parent: str | None = None


class SessionChange(InputDocument):
    """A new title, new metadata, or both."""

    title: str | None = None
    metadata: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _something(self) -> Self:
        if self.title is None and self.metadata is None:
            raise ValueError("Give a `title` or `metadata`.")
        return self


_Call: TypeAlias = Annotated[list[_From], Field(min_length=2, max_length=2)]


class EntryInput(InputDocument):
    """A message to append. `answers` is the entry and the block of the call that it answers."""

    role: str
    content: Any = None
    content_json: str | None = None
    format: str = "anthropic"
    ts: _Millis | None = None
    message_id: str | None = None
    client_id: str | None = None
    model: str | None = None
    usage: Any = None
    usage_json: str | None = None
    extra: Any = None
    extra_json: str | None = None
    asked_at: _From | None = None
    answers: _Call | None = None


class RequestInput(InputDocument):
    """How the next request of the model is made."""

    form: Form = "anthropic"
    model: str | None = None
    dialect: str | None = None
    system: Any = None
    tools: list[Any] | None = None
    cache: bool = False
    as_of: _Point | None = None
    recorded: bool = False
    unanswered: bool = False
    prefill: bool = False
    compact: bool = False


class RequestReference(InputDocument):
    """The request that a reply answers: the fields of what `request` returned, without the body."""

    seq: _From
    form: Form
    model: str | None = None
    names: dict[str, str] = {}
    requested: str | None = None


class ReplyInput(InputDocument):
    """A model's reply, as the provider sent it; for a stream of Gemini, the list of its chunks."""

    reply: dict[str, Any] | list[Any] | None = None
    reply_json: str | None = None
    request: RequestReference | None = None
    extra: Any = None
    extra_json: str | None = None


class CallInput(InputDocument):
    """A tool call, by its entry and its number in the entry, from 0."""

    seq: _Seq
    block: _From


class AnswerInput(CallInput):
    """The result of a tool call."""

    output: Any = None
    output_json: str | None = None
    is_error: bool = False
    extra: Any = None
    extra_json: str | None = None


class PlanInput(InputDocument):
    """What to do to the context.

    With `hide` or `blocks` the plan is the agent's own: `condense` hides these messages and puts
    the `summary` in their place, `truncate` hides them without one, `clear` replaces the outputs in
    these `blocks`, which are pairs of a seq and a block. Otherwise a policy decides; its summary is
    made of the session's own words.
    """

    aim: Literal["manage", "condense", "truncate", "clear"]
    policy: str = "default"
    model: str | None = None
    limit: Annotated[int, Field(ge=1, le=MAX_INTEGER)] | None = None
    system: Any = None
    tools: list[Any] | None = None
    protected_tools: list[str] = []
    hide: Annotated[list[_Seq], Field(min_length=1)] | None = None
    summary: Text | None = None
    blocks: Annotated[list[_Call], Field(min_length=1)] | None = None

    @model_validator(mode="after")
    def _own(self) -> Self:
        wanted = {
            "condense": {"hide", "summary"},
            "truncate": {"hide"},
            "clear": {"blocks"},
            "manage": set[str](),
        }[self.aim]
        given = {name for name in ("hide", "summary", "blocks") if getattr(self, name) is not None}
        if given and given != wanted:
            names = " and ".join(sorted(wanted)) or "none of them"
            raise ValueError(f"Of hide, summary and blocks, {self.aim} takes {names}.")
        return self


class RewindInput(InputDocument):
    """Where a rewind goes: entry `to`, a message's id, a time, or the agent's own time `ts`."""

    to: _From | None = None
    message_id: str | None = None
    time: _When | None = None
    ts: _Millis | None = None
    keep_target: bool = True
    recorded: bool = False
    trigger: str = "manual"
    dry_run: bool = False

    @model_validator(mode="after")
    def _one_target(self) -> Self:
        targets = (self.to, self.message_id, self.time, self.ts)
        if sum(target is not None for target in targets) != 1:
            raise ValueError("Give one of `to`, `message_id`, `time` and `ts`.")
        return self


class UndoInput(InputDocument):
    """The change that is expected to be the last; `force` hides what came after it."""

    of: _Seq | None = None
    force: bool = False
    dry_run: bool = False


class UncoverInput(InputDocument):
    """The summary, marker, covering or clearing to take back."""

    seq: _Seq
    trigger: str = "manual"
    dry_run: bool = False


class ForkInput(InputDocument):
    """The entry up to which the new session is a copy, by default the last."""

    at: _From | None = None
    session_id: str | None = None
    parent: str | None = None
    ts: _Millis | None = None


class RedactionInput(InputDocument):
    """The entry whose content is erased. Without `"dry_run": false`, it is only shown."""

    seq: _Seq
    dry_run: bool = True


class PurgeInput(InputDocument):
    """Without `"dry_run": false`, the purge is only shown."""

    dry_run: bool = True


def read_query(kind: type[Parameters], raw: bytes) -> Any:
    """The parameters of a query string."""
    try:
        pairs = parse_qsl(
            raw.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=bool(raw),
            errors="strict",
            max_num_fields=100,
        )
    except (UnicodeError, ValueError):
        raise MalformedRequest("The query of the address is malformed.", name="") from None
    many = {
        field.alias or name
        for name, field in kind.model_fields.items()
        if get_origin(field.annotation) is list
    }
    values: dict[str, Any] = {name: [] for name in many}
    for name, value in pairs:
        if name in many:
            values[name].append(value)
        elif name in values:
            raise MalformedRequest(f"The parameter {name!r} is given twice.", name=name)
        else:
            values[name] = value
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        path, reason = _first(error)
        raise MalformedRequest(f"Parameter {path or 'of the query'}: {reason}", name=path) from None


def read_body(kind: type[InputDocument], document: Any, path: str = "") -> Any:
    """The document of a body."""
    try:
        return kind.model_validate(document)
    except ValidationError as error:
        where, reason = _first(error)
        where = ".".join(filter(None, (path, where)))
        raise InvalidDocument(f"{where or 'The body'}: {reason}", path=where) from None


def where_of(pairs: Iterable[str]) -> dict[str, str]:
    """The conditions of `where`, by key."""
    values: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or key in values:
            raise MalformedRequest("`where` takes key=value, each key once.", name="where")
        values[key] = value
    return values


def _first(error: ValidationError) -> tuple[str, str]:
    """Where the first mistake is, and what it is."""
    mistake = error.errors(include_url=False, include_context=False, include_input=False)[0]
    path = ".".join(map(str, mistake["loc"]))
    return path, f"{mistake['msg'].removeprefix('Value error, ').rstrip('.')}."
