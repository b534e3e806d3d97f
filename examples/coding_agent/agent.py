"""The loop: it asks the model and calls the tools until it is the user's turn."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from models import model_named
from roocontext import ContextManager, PendingCall, Session, Store
from roocontext.recall import Recall
from tools import DEFINITIONS, READING, Tools
from workspace import Workspace

DEFAULT_MODEL = "claude-opus-5"
SYSTEM = (
    "You are a coding agent. You work in one folder with the tools that you have, and all paths"
    " are relative to it. Read before you edit, and run the tests when you have edited."
)
CUT_OFF = "The reply was cut off within this call, so it was not made. Make several smaller ones."
INTERRUPTED = "This call was interrupted. It may have had effects: look before you repeat it."
REFUSED = "The user did not allow this call."

T = TypeVar("T")


@dataclass
class Agent:
    """A session, the folder that it is about, and the model that is asked.

    `show` prints a text. `confirm` asks the person a question, and returns whether it is a yes.
    """

    store: Store
    workspace: Workspace
    show: Callable[[str], None]
    confirm: Callable[[str], bool]
    is_trusted: bool

    def open(self, chat: Session, model: str | None = None) -> None:
        """Work on this session, with the model that is named, or that it was left with."""
        note = chat.newest_note("model")
        remembered = note.content["name"] if note else DEFAULT_MODEL
        self.chat, self.recall = chat, Recall(self.store, chat)
        self.model_name = model or remembered
        self.model = model_named(self.model_name)
        if self.model_name != remembered:
            chat.note("model", {"name": self.model_name})
        self.context = ContextManager(self.model.name, client=self.model.client, recall=True)
        self.frame = {"system": SYSTEM, "tools": [*DEFINITIONS, *self.recall.tools()]}

    def say(self, text: str) -> None:
        """Record what the user says, and go on."""
        self.chat.append("user", text, extra={"commit": self.workspace.checkpoint()})
        self.go_on()

    def go_on(self) -> None:
        """Ask the model and call its tools until it is the user's turn, by what is recorded."""
        while (turn := self.chat.waits_for()) != "user":
            if turn == "model":
                self._ask()
            for call in self.chat.pending():
                self.show(f"  {call.name} {json.dumps(call.input)[:200]}\n")
                self.recall.answer(call) or self._call(call)

    def move(self, change: Callable[[], T]) -> T:
        """Change the conversation, and make the files those of its newest message with a commit."""
        with self.workspace.moving():
            done = change()
            commit = self.chat.info().metadata["commit"]
            for found in self.chat.audit():
                if found.rewound_by is None and found.entry.extra:
                    commit = found.entry.extra.get("commit", commit)
            self.workspace.restore(commit)
        return done

    def _ask(self) -> None:
        chat, model, frame = self.chat, self.model, self.frame
        done = self.context.manage(chat, **frame)
        request = chat.request(model.form, model=model.name, cache=True, **frame)
        try:
            chat.record(model.reply(request, self.show), request)
        except model.errors as error:
            done = self.context.recover(chat, error, **frame)
        counts = f"[{done.status}: {done.tokens_before} to {done.tokens_after} tokens]\n"
        self.show("\n" + counts * done.changed)

    def _call(self, call: PendingCall) -> None:
        output, is_error = self._refusal(call), True
        if not output:
            self.chat.begin(call)
            try:
                output, is_error = Tools(self.workspace).call(call.name, call.input)
            except KeyboardInterrupt:
                self.chat.answer(call, INTERRUPTED, is_error=True)
                raise
        extra = {} if call.name in READING else {"commit": self.workspace.checkpoint()}
        self.chat.answer(call, output, is_error=is_error, extra=extra)
        self.show("".join(f"  | {line}\n" for line in output.strip()[:500].splitlines()))

    def _refusal(self, call: PendingCall) -> str | None:
        """Why this call is not made, if it is not."""
        reply = next(self.chat.audit(after=call.seq - 1)).entry
        if reply.extra["roocontext"]["stop_reason"] == "max_tokens":
            return CUT_OFF
        if call.begun and call.name not in READING:
            return None if self.confirm("It was begun, and may have run. Again?") else INTERRUPTED
        if call.name == "run" and not self.is_trusted:
            return None if self.confirm("Run it?") else REFUSED
        return None
