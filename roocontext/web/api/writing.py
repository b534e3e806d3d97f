"""The operations that change a session, or would."""

from typing import Any
from urllib.parse import quote

from msgspec import structs

from roocontext import ContextManager, NewMessage, Plan, Request, reports
from roocontext.errors import (
    InvalidOption,
    SessionArchived,
    SessionNotFound,
    SessionPurged,
    SummaryFailed,
    VersionConflict,
)
from roocontext.log.events import Status
from roocontext.log.values import as_json
from roocontext.store.writing.append import Receipt
from roocontext.store.writing.items import SetMetadata, SetTitle
from roocontext.tokens.limits import DEFAULT
from roocontext.web.api import documents
from roocontext.web.api.inputs import EntryInput, PlanInput
from roocontext.web.api.json_text import with_texts
from roocontext.web.api.operations import PREFIX, Answer, ApiRequest
from roocontext.web.errors import MalformedRequest

_REPLAYED = {"Idempotency-Replayed": "true"}


def post_session(asked: ApiRequest) -> Answer:
    """Create a session. With an id it is safe to repeat: the second time it exists."""
    body = asked.body
    chat = asked.store.create(
        body.session_id, title=body.title, metadata=body.metadata, parent=body.parent
    )
    return Answer(documents.session_report(chat), 201, _location(chat.id))


def put_session(asked: ApiRequest) -> Answer:
    """Open the session with this id, or create it if there is none yet."""
    body, status = asked.body, 200
    try:
        asked.store.session(asked.session_id)
    except SessionPurged:
        raise
    except SessionNotFound:
        status = 201
    chat = asked.store.open_session(
        asked.session_id, title=body.title, metadata=body.metadata, parent=body.parent
    )
    return Answer(documents.session_report(chat), status)


def patch_session(asked: ApiRequest) -> Answer:
    """Replace the title, the metadata, or both."""
    body, chat = asked.body, asked.chat
    items: list[SetTitle | SetMetadata] = []
    if body.title is not None:
        items.append(SetTitle(body.title, asked.key))
    if body.metadata is not None:
        key = f"{asked.key} metadata" if asked.key and items else asked.key
        items.append(SetMetadata(body.metadata, key))
    (first, *_) = chat.write_batch(items)
    replayed = _REPLAYED if isinstance(first, Receipt) and not first.new else {}
    return Answer(documents.session_report(chat), headers=replayed)


def post_entries(asked: ApiRequest) -> Answer:
    """Append a message, or a list of messages in one transaction.

    The receipt is sent when they are durable. With an Idempotency-Key, or with a client id for each
    message, the request is safe to repeat.
    """
    chat = asked.chat
    if isinstance(asked.body, EntryInput):
        fields = structs.asdict(_message(asked, asked.body))
        role, content = fields.pop("role"), fields.pop("content")
        return _received(chat.append(role, content, expected_seq=asked.expected_seq, **fields))
    if asked.key is not None:
        line = "A list of messages takes no Idempotency-Key: give each of them a client_id."
        raise MalformedRequest(line, name="Idempotency-Key")
    messages = [_message(asked, one) for one in asked.body]
    receipts = chat.append_many(messages, expected_seq=asked.expected_seq)
    if receipts[0].new:
        return Answer(receipts, 201)
    return Answer(receipts, headers=_REPLAYED)


def post_request(asked: ApiRequest) -> Answer:
    """Make the arguments of the provider's call for the model's turn.

    The system prompt and the tools are recorded when they change, unless the server is read-only.
    """
    given = asked.body.model_dump()
    made = documents.request_report(asked.chat.request(given.pop("form"), **given))
    return Answer(with_texts(as_json(made)) if asked.query.content == "text" else made)


def post_record(asked: ApiRequest) -> Answer:
    """Append a model's reply. If it was recorded before, this is its first receipt."""
    body, request = asked.body, None
    if body.request is not None:
        given = body.request
        named = (given.names, given.requested)
        request = Request({}, given.seq, given.form, given.model, (), *named)
    receipt = asked.chat.record(body.value("reply"), request, extra=body.value("extra"))
    done = documents.ReplyReport.of(receipt)
    return Answer(done, 201) if receipt.new else Answer(done, headers=_REPLAYED)


def post_begin(asked: ApiRequest) -> Answer:
    """Record that a tool is about to run, so that a crash leaves a trace of it."""
    return _received(asked.chat.begin((asked.body.seq, asked.body.block)))


def post_answer(asked: ApiRequest) -> Answer:
    """Append the result of a tool call. A call has one answer: a second one is not written."""
    body = asked.body
    receipt = asked.chat.answer(
        (body.seq, body.block),
        body.value("output"),
        is_error=body.is_error,
        extra=body.value("extra"),
    )
    return _received(receipt)


def put_pin(asked: ApiRequest) -> Answer:
    """Keep later plans from hiding or clearing a message."""
    return _pinned(asked, asked.chat.pin(asked.seq, client_id=asked.key))


def delete_pin(asked: ApiRequest) -> Answer:
    """Take back a pin."""
    return _pinned(asked, asked.chat.unpin(asked.seq, client_id=asked.key))


def post_plan(asked: ApiRequest) -> Answer:
    """Show what a compaction would do now, and the view that it would leave. Nothing is written."""
    body, chat = asked.body, asked.chat
    if (plan := _own_plan(asked)) is not None:
        return Answer(documents.CommittedReport.of(chat.commit(plan, dry_run=True)))
    asked.check_head()
    frame: dict[str, Any] = {"system": body.system, "tools": body.tools}
    outcome = _manager(asked).preview(chat, body.aim, **frame)
    return Answer(reports.results.outcome_report(chat.id, outcome))


def post_compaction(asked: ApiRequest) -> Answer:
    """Condense, truncate or clear, by a policy or as the agent says. Nothing is deleted."""
    body, chat = asked.body, asked.chat
    if (plan := _own_plan(asked)) is not None:
        # As a batch, because its client id is looked up before the head is compared.
        expected = plan.head_seq if asked.expected_seq is None else asked.expected_seq
        (receipt,) = chat.write_batch([plan], expected_seq=expected)
        done = documents.CompactionReceipt.of(receipt)
        return Answer(done, 201) if receipt.new else Answer(done, headers=_REPLAYED)
    asked.check_head()
    manager = _manager(asked)
    run = manager.prune if body.aim == "clear" else getattr(manager, body.aim)
    outcome = run(chat, system=body.system, tools=body.tools)
    if outcome.status is Status.CONFLICT:
        raise VersionConflict(outcome.reason, expected=asked.expected_seq, actual=chat.head_seq())
    if outcome.status is Status.FAILED:
        raise SummaryFailed(outcome.reason)
    report = reports.results.outcome_report(chat.id, outcome)
    return Answer(report, 201 if outcome.changed else 200)


def post_rewind(asked: ApiRequest) -> Answer:
    """Return a session to an earlier state. Nothing is deleted, and an undo takes it back."""
    body, chat = asked.body, asked.chat
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


def post_undo(asked: ApiRequest) -> Answer:
    """Undo the last change of the view. A second undo is a redo."""
    body = asked.body
    change = reports.undo.undo_last_change(
        asked.chat,
        of=body.of,
        force=body.force,
        expected_seq=asked.expected_seq,
        dry_run=body.dry_run,
    )
    return _changed(change)


def post_uncover(asked: ApiRequest) -> Answer:
    """Take back one summary, marker, covering or clearing, and keep everything after it."""
    body, chat = asked.body, asked.chat
    done = chat.uncover(
        body.seq, expected_seq=asked.expected_seq, trigger=body.trigger, dry_run=body.dry_run
    )
    return _changed(reports.undo.uncovered_report(chat, done))


def post_fork(asked: ApiRequest) -> Answer:
    """Create a session that begins as a copy of this one."""
    body, chat = asked.body, asked.chat
    asked.check_head()
    branch = chat.fork(body.at, session_id=body.session_id, parent=body.parent, ts=body.ts)
    return Answer(reports.results.forked_report(branch, chat.id), 201, _location(branch.id))


def post_redaction(asked: ApiRequest) -> Answer:
    """Erase the content of an entry for good, in every fork too; by default only show it."""
    asked.check_head()
    done = reports.erasing.redaction(asked.chat, asked.body.seq, dry_run=asked.body.dry_run)
    return Answer(done, 201 if done.changed and not done.dry_run else 200)


def post_purge(asked: ApiRequest) -> Answer:
    """Delete everything in a session but a receipt; by default only show what would be deleted."""
    dry_run, is_new = asked.body.dry_run, True
    try:
        asked.check_head()
    except SessionPurged:  # a repetition has the first receipt
        is_new = False
    except SessionArchived:  # which no client can have read the head of
        pass
    if dry_run:
        plan = reports.erasing.planned_purge(asked.store, asked.session_id, changed=is_new)
        return Answer(plan)
    receipt = asked.store.purge(asked.session_id)
    done = reports.erasing.purged_report(receipt, changed=is_new, dry_run=False)
    return Answer(done, 201 if is_new else 200)


def _location(session_id: str) -> dict[str, str]:
    return {"Location": f"{PREFIX}/sessions/{quote(session_id, safe='')}"}


def _received(receipt: Receipt) -> Answer:
    return Answer(receipt, 201) if receipt.new else Answer(receipt, headers=_REPLAYED)


def _changed(change: reports.undo.ViewChange) -> Answer:
    return Answer(change, 201 if change.changed and not change.dry_run else 200)


def _pinned(asked: ApiRequest, receipt: Receipt) -> Answer:
    pins = sorted(asked.chat.pins())
    answer = reports.results.Pins(session_id=asked.session_id, pins=pins, changed=receipt.new)
    return Answer(answer, headers={} if receipt.new else _REPLAYED)


def _message(asked: ApiRequest, given: EntryInput) -> NewMessage:
    """A message of a request."""
    if asked.key is not None and given.client_id not in (None, asked.key):
        line = "The client_id and the Idempotency-Key are different."
        raise MalformedRequest(line, name="Idempotency-Key")
    return NewMessage(
        given.role,
        given.value("content"),
        given.format,
        given.ts,
        given.message_id,
        asked.key or given.client_id,
        given.model,
        given.value("usage"),
        given.value("extra"),
        given.asked_at,
        None if given.answers is None else (given.answers[0], given.answers[1]),
    )


def _own_plan(asked: ApiRequest) -> Plan | None:
    """The plan that the agent gives, made for the view that it knows."""
    body: PlanInput = asked.body
    if body.hide is None and body.blocks is None:
        if asked.key is not None:
            line = "Only a plan of the agent's own takes an Idempotency-Key."
            raise MalformedRequest(line, name="Idempotency-Key")
        return None
    # A repetition makes the same plan again, of the view that it was made of.
    view = asked.chat.view(as_of=asked.expected_seq)
    if body.blocks is not None:
        blocks = [(seq, block) for seq, block in body.blocks]
        return Plan.clear(view, blocks, client_id=asked.key)
    if body.summary is not None:
        return Plan.condense(view, body.hide or (), body.summary, client_id=asked.key)
    return Plan.truncate(view, body.hide or (), client_id=asked.key)


def _manager(asked: ApiRequest) -> ContextManager:
    """The manager for the named model, or for the model that the newest message names."""
    body: PlanInput = asked.body
    manager = ContextManager(
        reports.gauge.model_in_use(asked.chat, body.model) or "",
        policy=body.policy,
        limit=body.limit,
        summariser="extractive",
        protected_tools=body.protected_tools,
    )
    # A guess would cut the session to nothing.
    if manager.settings.window().source == DEFAULT:
        name = manager.settings.model
        known = f"The window of model {name!r} is not known" if name else "No model is named"
        raise InvalidOption(f"{known}: give its `limit` in tokens.", name="limit")
    return manager
