"""The documents in the bodies of requests."""

from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import AfterValidator, Field, model_validator

from roocontext.log.encoding import MAX_INTEGER
from roocontext.reports.document import Text
from roocontext.web.api.inputs import (
    FormName,
    InputDocument,
    MillisInput,
    PointInput,
    SeqInput,
    SeqOrZero,
    TimeInput,
)


class SessionToOpen(InputDocument):
    """The title, metadata and parent of a session, if it has to be created."""

    title: str | None = None
    metadata: dict[str, Any] | None = None
    metadata_json: str | None = None
    parent: str | None = None


class LeaseInput(InputDocument):
    """For how many seconds a turn is taken, if it is not renewed."""

    lease: Annotated[float, Field(ge=0.1, le=86_400)] = 60


class TurnInput(LeaseInput):
    """Who takes the turn, as those who want it too are told."""

    holder: Annotated[str, Field(min_length=1, max_length=200)] = "HTTP"


class NewSession(SessionToOpen):
    """A session to create."""

    session_id: str | None = None


class SessionChange(InputDocument):
    """A new title, and new metadata or a change of single keys.

    `metadata` replaces all of it. `changes` gives some keys new values and `remove` removes some;
    the others stay as they are, even if another writer changes them at the same time.
    """

    title: str | None = None
    metadata: dict[str, Any] | None = None
    metadata_json: str | None = None
    changes: dict[str, Any] | None = None
    changes_json: str | None = None
    remove: list[str] = []

    @property
    def replaces(self) -> bool:
        """True if all metadata is replaced."""
        return not {"metadata", "metadata_json"}.isdisjoint(self.model_fields_set)

    @property
    def updates(self) -> bool:
        """True if single keys are changed."""
        return not {"changes", "changes_json", "remove"}.isdisjoint(self.model_fields_set)

    @model_validator(mode="after")
    def _something(self) -> Self:
        if self.title is None and not self.replaces and not self.updates:
            raise ValueError("Give a `title`, `metadata`, `changes` or `remove`.")
        if self.replaces and self.updates:
            raise ValueError("Give `metadata`, or `changes` and `remove`, not both.")
        if self.title is not None and self.updates:
            raise ValueError("A change of single keys takes no `title`: send two requests.")
        return self


_Call: TypeAlias = Annotated[
    list[SeqOrZero], Field(min_length=2, max_length=2), AfterValidator(tuple)
]


class EntryInput(InputDocument):
    """A message to append. `answers` is the entry of the answered call, and its number there."""

    role: str
    content: Any = None
    content_json: str | None = None
    format: str = "anthropic"
    ts: MillisInput | None = None
    message_id: str | None = None
    client_id: str | None = None
    model: str | None = None
    usage: Any = None
    usage_json: str | None = None
    extra: Any = None
    extra_json: str | None = None
    asked_at: SeqOrZero | None = None
    answers: _Call | None = None


class NoteInput(InputDocument):
    """A note to write: something that no model sees, about the message `target` if it is given."""

    note: str
    content: dict[str, Any] | None = None
    content_json: str | None = None
    target: SeqInput | None = None
    ts: MillisInput | None = None
    client_id: str | None = None

    @model_validator(mode="after")
    def _content(self) -> Self:
        if self.content is None and self.content_json is None:
            raise ValueError("Give the `content`, an object.")
        return self


class FrameInput(InputDocument):
    """The system prompt and the tool definitions of a request."""

    system: Any = None
    system_json: str | None = None
    tools: list[Any] | None = None
    tools_json: str | None = None

    @property
    def frame(self) -> dict[str, Any]:
        """The system prompt and the tools."""
        return {"system": self.value("system"), "tools": self.value("tools")}


class RequestInput(FrameInput):
    """How the next request of the model is made.

    `context_management` and `betas` are passed on to the provider. The `options` of a compaction
    by the policy `server` have both.
    """

    form: FormName = "anthropic"
    model: str | None = None
    dialect: str | None = None
    cache: bool = False
    as_of: PointInput | None = None
    recorded: bool = False
    unanswered: bool = False
    prefill: bool = False
    compact: bool = False
    context_management: Any = None
    context_management_json: str | None = None
    betas: list[str] | None = None


class RequestReference(InputDocument):
    """The request that a reply answers: the fields of what `request` returned, without the body."""

    seq: SeqOrZero
    form: FormName
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

    seq: SeqInput
    block: SeqOrZero


class AnswerInput(CallInput):
    """The result of a tool call."""

    output: Any = None
    output_json: str | None = None
    is_error: bool = False
    extra: Any = None
    extra_json: str | None = None


class ManagerInput(FrameInput):
    """The policy that keeps the context small, and the model whose window it fills.

    Summaries are made of the session's own words. `limit` is the window in tokens, if the model's
    is not known.
    """

    policy: str = "default"
    model: str | None = None
    limit: Annotated[int, Field(ge=1, le=MAX_INTEGER)] | None = None
    protected_tools: list[str] = []


class PlanInput(ManagerInput):
    """The change to make to the context.

    With `hide` or `blocks` the plan is the agent's own: `condense` hides these messages and puts
    the `summary` in their place, `truncate` hides them without one, `clear` replaces the outputs in
    these `blocks`, which are pairs of a seq and a block. Otherwise a policy decides; its summary is
    made of the session's own words.
    """

    aim: Literal["manage", "condense", "truncate", "clear"]
    hide: Annotated[list[SeqInput], Field(min_length=1)] | None = None
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
        fields = {name for name in ("hide", "summary", "blocks") if getattr(self, name) is not None}
        if fields and fields != wanted:
            names = " and ".join(sorted(wanted)) or "none of them"
            raise ValueError(f"Of hide, summary and blocks, {self.aim} takes {names}.")
        return self


class RecoveryInput(ManagerInput):
    """A request that the provider refused because it is too long.

    `status` and `error` are the HTTP status and the body of the provider's answer.
    """

    status: Annotated[int, Field(ge=100, le=599)] | None = None
    error: Any = None
    error_json: str | None = None

    @model_validator(mode="after")
    def _refused(self) -> Self:
        if {"status", "error", "error_json"}.isdisjoint(self.model_fields_set):
            raise ValueError("Give the `status`, the `error`, or both.")
        return self


class RestorationInput(ManagerInput):
    """The model that has room for more. With `"dry_run": true`, nothing is written."""

    dry_run: bool = False


class RewindInput(InputDocument):
    """Where a rewind goes: entry `to`, a message's id, a time, or the agent's own time `ts`."""

    to: SeqOrZero | None = None
    message_id: str | None = None
    time: TimeInput | None = None
    ts: MillisInput | None = None
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

    of: SeqInput | None = None
    force: bool = False
    dry_run: bool = False


class UncoverInput(InputDocument):
    """The summary, marker, covering or clearing to take back."""

    seq: SeqInput
    trigger: str = "manual"
    dry_run: bool = False


class ForkInput(InputDocument):
    """The entry up to which the new session is a copy, by default the last."""

    at: SeqOrZero | None = None
    session_id: str | None = None
    parent: str | None = None
    ts: MillisInput | None = None


class RedactionInput(InputDocument):
    """The entry whose content is erased. Without `"dry_run": false`, it is only shown."""

    seq: SeqInput
    dry_run: bool = True


class PurgeInput(InputDocument):
    """Without `"dry_run": false`, the purge is only shown."""

    dry_run: bool = True
