"""The operations that change a session, or would."""

from contextlib import suppress
from typing import Any, TypeAlias, TypeVar
from urllib.parse import quote

from roocontext import (
    ContextManager,
    NewMessage,
    NewNote,
    Outcome,
    Plan,
    Request,
    Rewind,
    Rewound,
    View,
    reports,
)
from roocontext.errors import (
    DuplicateMessage,
    InvalidPlan,
    MessageNotFound,
    SessionArchived,
    SessionExists,
    SessionNotFound,
    SessionPurged,
)
from roocontext.store.loop.runner import Held
from roocontext.store.turn import GivenTurn
from roocontext.store.writing.append import Receipt
from roocontext.store.writing.items import SetMetadata, SetTitle
from roocontext.web.api import bodies, documents, queries
from roocontext.web.api.json_text import json_text
from roocontext.web.api.operations import (
    KEY,
    PREFIX,
    Answer,
    AnyRequest,
    ApiRequest,
    Changing,
    DocumentT,
    Plain,
)
from roocontext.web.compacting import (
    checked_outcome,
    compacted,
    manager_for,
    with_known_window,
)
from roocontext.web.errors import InvalidDocument, MalformedRequest

_REPLAYED = {"Idempotency-Replayed": "true"}
_Erased: TypeAlias = reports.erasing.RedactedReport | reports.erasing.PurgedReport
ChangeT = TypeVar("ChangeT", bound=reports.undo.ViewChange | _Erased)


class _Refusal(Exception):
    """A provider's answer that refuses a request, as `recover` reads it."""

    def __init__(self, status: int | None, body: Any) -> None:
        super().__init__(body if isinstance(body, str) else json_text(body))
        self.status_code = status


def post_session(asked: Changing[bodies.NewSession]) -> Answer[documents.SessionReport]:
    """Create a session. With an id it is safe to repeat: the second time it exists."""
    chat = asked.store.create(**asked.body.values())
    return Answer(documents.session_report(chat), 201, _location(chat.id))


def put_session(asked: Changing[bodies.SessionToOpen]) -> Answer[documents.SessionReport]:
    """Open the session with this id, or create it if there is none yet."""
    values = asked.body.values()
    try:
        asked.store.session(asked.session_id)
    except SessionNotFound:
        with suppress(SessionExists):  # another request has created it since, or another owner
            chat = asked.store.create(asked.session_id, **values)
            return Answer(documents.session_report(chat), 201)
    chat = asked.store.open_session(asked.session_id, **values)
    return Answer(documents.session_report(chat))


def patch_session(asked: Changing[bodies.SessionChange]) -> Answer[documents.SessionReport]:
    """Replace the title, the metadata, or both; or change single keys of the metadata."""
    body, chat = asked.body, asked.chat
    if body.updates:
        changes = body.value("changes")
        receipt = chat.update_metadata(changes, remove=body.remove, client_id=asked.key)
    else:
        items: list[SetTitle | SetMetadata] = []
        if body.title is not None:
            items.append(SetTitle(body.title, asked.key))
        if body.replaces:
            key = asked.key if asked.key is None or not items else f"{asked.key} metadata"
            items.append(SetMetadata(body.value("metadata"), key))
        receipt = chat.write_batch(items)[0]
    return _written(documents.session_report(chat), new=receipt.new, status=200)


def post_entries(
    asked: ApiRequest[queries.AppendQuery, bodies.EntryInput | list[bodies.EntryInput]],
) -> Answer[Receipt] | Answer[list[Receipt]]:
    """Append a message, or a list of messages in one transaction.

    The receipt is sent when they are durable. With an Idempotency-Key, or with a client id for each
    message, the request is safe to repeat.
    """
    chat = asked.chat
    if isinstance(asked.body, bodies.EntryInput):
        if asked.query.skip_stored:
            raise MalformedRequest("Only a list takes `skip_stored`.", name="skip_stored")
        fields = _fields(asked, asked.body)
        receipt = chat.append(expected_seq=asked.expected_seq, **fields)
        return _written(receipt, new=receipt.new)
    _refuse_key(asked)
    messages = [NewMessage(**_fields(asked, item)) for item in asked.body]
    skips = {"skip_stored": asked.query.skip_stored}
    receipts = chat.append_many(messages, expected_seq=asked.expected_seq, **skips)
    return _written(receipts, new=any(receipt.new for receipt in receipts))


def post_notes(
    asked: Changing[bodies.NoteInput | list[bodies.NoteInput]],
) -> Answer[Receipt] | Answer[list[Receipt]]:
    """Write a note that no model sees, or a list of notes in one transaction.

    With an Idempotency-Key, or with a client id for each note, the request is safe to repeat.
    """
    if isinstance(asked.body, bodies.NoteInput):
        receipt = asked.chat.note(**_fields(asked, asked.body))
        return _written(receipt, new=receipt.new)
    _refuse_key(asked)
    written = asked.chat.write_batch([NewNote(**_fields(asked, item)) for item in asked.body])
    fields = Receipt.__struct_fields__
    receipts = [Receipt(**{name: getattr(one, name) for name in fields}) for one in written]
    return _written(receipts, new=any(receipt.new for receipt in receipts))


def post_request(
    asked: ApiRequest[queries.ContentQuery, bodies.RequestInput],
) -> Answer[documents.RequestReport]:
    """Make the arguments of the provider's call for the model's turn.

    The system prompt and the tools are recorded when they change, unless the server is read-only.
    """
    return Answer(documents.RequestReport.of(asked.chat.request(**asked.body.values())))


def post_record(asked: Changing[bodies.ReplyInput]) -> Answer[documents.ReplyReport]:
    """Append a model's reply. If it was recorded before, this is its first receipt."""
    body, read = asked.body, asked.body.request
    request = None if read is None else Request({}, repairs=(), **read.values())
    receipt = asked.chat.record(body.value("reply"), request, extra=body.value("extra"))
    return _written(documents.ReplyReport.of(receipt), new=receipt.new)


def post_begin(asked: Changing[bodies.CallInput]) -> Answer[Receipt]:
    """Record that a tool is about to run, so that a crash leaves a trace of it."""
    receipt = asked.chat.begin((asked.body.seq, asked.body.block))
    return _written(receipt, new=receipt.new)


def post_answer(asked: Changing[bodies.AnswerInput]) -> Answer[Receipt]:
    """Append the result of a tool call. A call has one answer: a second one is not written."""
    fields = asked.body.values()
    receipt = asked.chat.answer((fields.pop("seq"), fields.pop("block")), **fields)
    return _written(receipt, new=receipt.new)


def post_turn(asked: Changing[bodies.TurnInput]) -> Answer[documents.TurnReport]:
    """Take the session's turn, so that one runner works on it.

    If another one has it, the problem names its `holder` and when it ends, `expires_at`. What is
    sent with the `token` as `Roocontext-Turn` is refused once another runner has taken over. An
    answer that is lost leaves a turn that ends with its lease.
    """
    turn = GivenTurn(asked.chat)
    return Answer(_turn_report(asked, turn.take(asked.body.holder, asked.body.lease)), 201)


def put_turn(asked: Changing[bodies.LeaseInput]) -> Answer[documents.TurnReport]:
    """Renew the turn: its lease begins anew."""
    turn = GivenTurn(asked.chat, asked.turn)
    return Answer(_turn_report(asked, turn.renew(asked.body.lease)))


def delete_turn(asked: Plain) -> Answer[documents.EndedTurn]:
    """Give the turn back. If another runner has it already, nothing happens."""
    GivenTurn(asked.chat, asked.turn).end()
    return Answer(documents.EndedTurn(session_id=asked.session_id))


def put_pin(asked: Plain) -> Answer[reports.results.Pins]:
    """Keep later plans from hiding or clearing a message."""
    return _pinned(asked, asked.chat.pin(asked.seq, client_id=asked.key))


def delete_pin(asked: Plain) -> Answer[reports.results.Pins]:
    """Take back a pin."""
    return _pinned(asked, asked.chat.unpin(asked.seq, client_id=asked.key))


def post_plan(
    asked: Changing[bodies.PlanInput],
) -> Answer[reports.results.OutcomeReport] | Answer[documents.CommittedReport]:
    """Show what a compaction would do now, and the view that it would leave. Nothing is written."""
    body, chat = asked.body, asked.chat
    if (plan := _own_plan(asked)) is not None:
        return Answer(documents.CommittedReport.of(chat.commit(plan, dry_run=True)))
    asked.check_head()
    outcome = _known_manager(asked).preview(chat, body.aim, **body.frame)
    return Answer(reports.results.outcome_report(chat.id, outcome))


def post_compaction(
    asked: Changing[bodies.PlanInput],
) -> Answer[reports.results.OutcomeReport] | Answer[documents.CompactionReceipt]:
    """Condense, truncate or clear, by a policy or as the agent says. Nothing is deleted."""
    body, chat = asked.body, asked.chat
    if (plan := _own_plan(asked)) is not None:
        # As a batch, because its client id is looked up before the head is compared.
        expected = plan.head_seq if asked.expected_seq is None else asked.expected_seq
        (receipt,) = chat.write_batch([plan], expected_seq=expected)
        return _written(documents.CompactionReceipt.of(receipt), new=receipt.new)
    asked.check_head()
    manager = _known_manager(asked)
    done = compacted(chat, manager, body.aim, asked.expected_seq, **body.frame)
    return _managed(asked, done)


def post_recovery(asked: Changing[bodies.RecoveryInput]) -> Answer[reports.results.OutcomeReport]:
    """Cut the context of a request that the provider refused as too long.

    A limit that the provider names is remembered in the session, and used from then on. After three
    cuts without a reply of the model, this is refused.
    """
    body = asked.body
    asked.check_head()
    refusal = _Refusal(body.status, body.value("error"))
    try:
        outcome = _manager(asked).recover(asked.chat, refusal, **body.frame)
    except _Refusal:
        line = "error: it does not say that the request is too long."
        raise InvalidDocument(line, path="error") from None
    return _managed(asked, checked_outcome(asked.chat, outcome, asked.expected_seq))


def post_restoration(asked: Changing[bodies.RestorationInput]) -> Answer[documents.RestoredReport]:
    """Uncover what was hidden, newest first, until half of the model's window is full."""
    asked.check_head()
    manager = _known_manager(asked)
    done = manager.restore(asked.chat, dry_run=asked.body.dry_run, **asked.body.frame)
    report = documents.RestoredReport.of(done, session_id=asked.session_id)
    return Answer(report, 201 if done.changed and not done.dry_run else 200)


def post_rewind(asked: Changing[bodies.RewindInput]) -> Answer[reports.undo.ViewChange]:
    """Return a session to an earlier state. Nothing is deleted, and an undo takes it back.

    With an Idempotency-Key it is safe to repeat. It must then name the entry `to`, and is written
    even if it changes nothing.
    """
    body, chat = asked.body, asked.chat
    if asked.key is not None:
        return _keyed_rewind(asked)
    targets = (body.to, body.message_id, body.time)
    done = chat.rewind(
        next((target for target in targets if target is not None), None),
        ts=body.ts,
        recorded=body.recorded,
        keep_target=body.keep_target,
        expected_seq=asked.expected_seq,
        trigger=body.trigger,
        dry_run=body.dry_run,
    )
    return _changed(reports.undo.rewound_report(chat, done))


def post_undo(asked: Changing[bodies.UndoInput]) -> Answer[reports.undo.ViewChange]:
    """Undo the last change of the view. A second undo is a redo."""
    asked.check_head()  # before what the entries since then would refuse
    options = asked.body.values() | {"expected_seq": asked.expected_seq}
    return _changed(reports.undo.undo_last_change(asked.chat, **options))


def post_uncover(asked: Changing[bodies.UncoverInput]) -> Answer[reports.undo.ViewChange]:
    """Take back one summary, marker, covering or clearing, and keep everything after it."""
    chat = asked.chat
    done = chat.uncover(expected_seq=asked.expected_seq, **asked.body.values())
    return _changed(reports.undo.uncovered_report(chat, done))


def post_fork(asked: Changing[bodies.ForkInput]) -> Answer[reports.results.Forked]:
    """Create a session that begins as a copy of this one."""
    options, origin = asked.body.values(), asked.session_id
    if asked.body.at is None:  # named before the check, so that no later entry is copied
        options["at"] = asked.chat.head().seq
    asked.check_head()
    branch = asked.chat.fork(**options)
    return Answer(reports.results.forked_report(branch, origin), 201, _location(branch.id))


def post_redaction(
    asked: Changing[bodies.RedactionInput],
) -> Answer[reports.erasing.RedactedReport]:
    """Erase the content of an entry for good, in every fork too; by default only show it."""
    asked.check_head()
    body = asked.body
    return _changed(reports.erasing.redaction(asked.chat, body.seq, dry_run=body.dry_run))


def post_purge(asked: Changing[bodies.PurgeInput]) -> Answer[reports.erasing.PurgedReport]:
    """Delete everything in a session but a receipt; by default only show what would be deleted."""
    dry_run, is_new = asked.body.dry_run, True
    try:
        asked.check_head()
    except SessionPurged:  # a repetition has the first receipt
        is_new = False
    except SessionArchived:  # the purge itself compares the head that it was archived with
        pass
    if dry_run:
        return _changed(
            reports.erasing.planned_purge(asked.store, asked.session_id, changed=is_new)
        )
    receipt = asked.store.purge(asked.session_id, expected_seq=asked.expected_seq)
    return _changed(reports.erasing.PurgedReport.of(receipt, changed=is_new, dry_run=False))


def _turn_report(asked: AnyRequest, held: Held) -> documents.TurnReport:
    return documents.TurnReport.of(held, session_id=asked.session_id)


def _location(session_id: str) -> dict[str, str]:
    return {"Location": f"{PREFIX}/sessions/{quote(session_id, safe='')}"}


def _written(document: DocumentT, *, new: bool, status: int = 201) -> Answer[DocumentT]:
    """The answer to a change with an id, which may be a repetition."""
    return Answer(document, status) if new else Answer(document, headers=_REPLAYED)


def _changed(change: ChangeT) -> Answer[ChangeT]:
    return Answer(change, 201 if change.changed and not change.dry_run else 200)


def _pinned(asked: Plain, receipt: Receipt) -> Answer[reports.results.Pins]:
    pins = sorted(asked.chat.pins())
    answer = reports.results.Pins(session_id=asked.session_id, pins=pins, changed=receipt.new)
    return _written(answer, new=receipt.new, status=200)


def _keyed_rewind(asked: Changing[bodies.RewindInput]) -> Answer[reports.undo.ViewChange]:
    """A rewind with a client id, which is looked up before the head is compared."""
    body, chat = asked.body, asked.chat
    if body.to is None or body.dry_run:
        line = "A rewind with an Idempotency-Key names the entry `to`, and cannot be a dry run."
        raise MalformedRequest(line, name=KEY)
    to = body.to if body.keep_target else body.to - 1
    if to < 0:
        raise MessageNotFound("Nothing comes before the empty session, entry 0.", candidates=(0,))
    expected = chat.head_seq() if asked.expected_seq is None else asked.expected_seq
    item = Rewind(to, trigger=body.trigger, client_id=asked.key)
    (receipt,) = chat.write_batch([item], expected_seq=expected)
    record = reports.history.one_entry(chat, receipt.seq).details["record"]
    counts = record["left"], record["returned"]
    place = chat.id, to, receipt.seq, receipt.hash, receipt.head_seq
    change = reports.undo.rewound_report(chat, Rewound(*place, *counts, changed=True))
    return _written(change, new=receipt.new)


def _refuse_key(asked: AnyRequest) -> None:
    if asked.key is not None:
        line = "A list takes no Idempotency-Key: give each of its items a client_id."
        raise MalformedRequest(line, name=KEY)


def _fields(asked: AnyRequest, given: bodies.EntryInput | bodies.NoteInput) -> dict[str, Any]:
    """The fields of a message or a note of a request."""
    if asked.key is not None and given.client_id not in (None, asked.key):
        raise MalformedRequest("The client_id and the Idempotency-Key are different.", name=KEY)
    return given.values() | ({} if asked.key is None else {"client_id": asked.key})


def _own_plan(asked: Changing[bodies.PlanInput]) -> Plan | None:
    """The plan that the agent gives, made for the view that it knows."""
    body = asked.body
    if body.hide is None and body.blocks is None:
        if asked.key is not None:
            line = "Only a plan of the agent's own takes an Idempotency-Key."
            raise MalformedRequest(line, name=KEY)
        return None
    # A repetition makes the same plan again, of the view that it was made of.
    first = None if asked.key is None else asked.chat.internals.first_written(asked.key)
    if first is None:
        asked.check_head()
    moment = asked.expected_seq if first is None else first - 1
    # A repetition writes nothing, and need not shrink what was redacted since.
    options = {"client_id": asked.key, "compat": first is not None}
    try:
        return _planned(body, asked.chat.view(as_of=moment), options)
    except InvalidPlan:
        if first is None:
            raise
        line = f"The client id {asked.key!r} is taken by entry {first}, which has other content."
        raise DuplicateMessage(line, client_id=asked.key, seq=first) from None


def _planned(body: bodies.PlanInput, view: View, options: dict[str, Any]) -> Plan:
    if body.blocks is not None:
        return Plan.clear(view, [(seq, at) for seq, at in body.blocks], **options)
    if body.summary is not None:
        return Plan.condense(view, body.hide or (), body.summary, **options)
    return Plan.truncate(view, body.hide or (), **options)


def _managed(asked: AnyRequest, outcome: Outcome) -> Answer[reports.results.OutcomeReport]:
    """The outcome of a run of the manager."""
    report = reports.results.outcome_report(asked.session_id, outcome)
    return Answer(report, 201 if outcome.changed else 200)


def _manager(asked: AnyRequest) -> ContextManager:
    """The manager that the body asks for."""
    options = asked.body.model_dump(include={"model", "policy", "limit", "protected_tools"})
    return manager_for(asked.chat, asked.request.app.state.summariser, **options)


def _known_manager(asked: AnyRequest) -> ContextManager:
    """The same, if the model's window is known."""
    return with_known_window(asked.chat, _manager(asked))
