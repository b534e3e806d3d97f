"""The steps of an agent's loop: request, record, begin and answer. Each is one write at most."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from roocontext.errors import InvalidOption, StoreReadOnly
from roocontext.log.draft import message_draft
from roocontext.log.encoding import check_model
from roocontext.log.entries import BlockRef, NewMessage
from roocontext.log.replies import read_reply
from roocontext.log.request import GivenFrame, Request, compose_request
from roocontext.log.turns import PendingCall
from roocontext.store.engine.check_arguments import to_point
from roocontext.store.engine.clock_and_ids import Clock, Ids
from roocontext.store.engine.database import Database
from roocontext.store.loop import frame, request, turns
from roocontext.store.session_reader import SessionReader
from roocontext.store.writing import record
from roocontext.store.writing.append import Receipt


class SessionLoop(SessionReader):
    """What an agent's loop writes to a session."""

    def __init__(
        self,
        database: Database,
        session_id: str,
        *,
        parent: str | None = None,
        clock: Clock,
        ids: Ids,
        record_frames: bool = True,
    ) -> None:
        super().__init__(database, session_id, parent)
        self._clock = clock
        self._ids = ids
        self._record_frames = record_frames

    def request(
        self,
        form: str = "anthropic",
        *,
        model: str | None = None,
        system: Any = None,
        tools: Sequence[Any] | None = None,
        cache: bool = False,
        as_of: int | datetime | None = None,
        recorded: bool = False,
        unanswered: bool = False,
        prefill: bool = False,
    ) -> Request:
        """Make the SDK's call for the model's turn: `client.messages.create(..., **request)`.

        `system` and `tools` are recorded when they change; what is left out is as it is recorded.
        The `model` is the one that is asked, by default that of the newest reply. With `cache`,
        Anthropic's breakpoints are set. When it is not the model's turn, NotTheModelsTurn is
        raised: unless calls wait and `unanswered` answers them with a fixed text, or `prefill`
        ends the request with the assistant's own words. `as_of` gives what the model got then, and
        records nothing.
        """
        point = to_point("as_of", as_of, recorded=recorded)
        if model is not None:
            check_model(model)
        given = GivenFrame.checked(system, tools)
        asked: dict[str, Any] = {"model": model, "unanswered": unanswered, "prefill": prefill}
        read = self._database.snapshot(request.read_request, self.id, given, as_of=point, **asked)
        # Composed before anything is recorded: it may be refused.
        made = compose_request(read, form, cache=cache)
        if not (read.is_new and self._record_frames):
            return made
        now, salts = self._clock(), self._ids.salt
        with suppress(StoreReadOnly):
            read = self._database.write(
                request.keep_and_read, self.id, given, now=now, salts=salts, **asked
            )
        # Read again behind the note of the frame: `seq` must be the entry that the request was read
        # up to.
        return compose_request(read, form, cache=cache)

    def record(self, reply: Any, request: Request | None = None, *, extra: Any = None) -> Receipt:
        """Append a model's reply: the SDK's object, or a dict of the same shape.

        Content, model and usage come from it, and so does the message id. Its id, its stop reason
        and the id of the HTTP request are kept in the message's `extra`. With the `request` that it
        answers, the entry that was read up to is stored. A reply that is recorded again gives the
        first receipt. The same id with other content, for the same request, is DuplicateMessage.
        Of a stream give the final object, or the list of Gemini's chunks.
        """
        if request is not None and not isinstance(request, Request):
            raise InvalidOption("The request is one that `request` made.", name="request")
        read = read_reply(reply)
        message = NewMessage(
            read.role,
            read.content,
            read.format,
            message_id=read.id,
            model=read.model,
            usage=read.usage,
            extra=extra,
            asked_at=None if request is None else request.seq,
        )
        now, salts = self._clock(), self._ids.salt
        draft = message_draft(message, now=now, salts=salts, kept=read.kept())
        return self._database.write(record.record, self.id, draft)

    def begin(self, call: PendingCall | BlockRef) -> Receipt:
        """Note that a tool is about to run; `pending` then shows its call as begun.

        After a crash this distinguishes a call that never ran from one that may have run.
        """
        now, salts = self._clock(), self._ids.salt
        return self._database.write(turns.begin, self.id, call, now=now, salts=salts)

    def answer(
        self,
        call: PendingCall | BlockRef,
        output: Any,
        *,
        is_error: bool = False,
        extra: Any = None,
    ) -> Receipt:
        """Append the result of a tool call, in the format of the message that holds the call.

        A call has one answer: if a live result answers it already, nothing is written, and the
        receipt is that result's. A rewound one does not count. An `output` that is not text goes in
        as it is where the format has a place for its shape, else as its JSON.
        """
        asking = self._database.snapshot(turns.asking, self.id, call)
        place = turns.place_of(call)
        draft = turns.answer_draft(
            asking,
            place[1],
            output,
            is_error=is_error,
            extra=extra,
            now=self._clock(),
            salts=self._ids.salt,
        )
        return self._database.write(turns.answer, self.id, place, draft)

    def keep_frame(self, *, system: Any = None, tools: Sequence[Any] | None = None) -> bool:
        """Record the system prompt and the tools if they changed, and return whether they did.

        What is left out stays as it is recorded. `manage` and `request` do this. If nothing can be
        written, or the store records no frames, the call does nothing.
        """
        given = GivenFrame.checked(system, tools)
        if (
            not self._record_frames
            or self._database.snapshot(frame.frame_to_record, self.id, given) is None
        ):
            return False
        with suppress(StoreReadOnly):
            return self._database.write(
                frame.keep, self.id, given, now=self._clock(), salts=self._ids.salt
            )
        return False
