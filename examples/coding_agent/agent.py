"""The loop: it asks the model and calls the tools until it is the user's turn."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from models import model_named
from roocontext import ContextManager, Outcome, PendingCall, Session, Store
from roocontext.recall import Recall
from tools import DEFINITIONS, READING, call_tool
from workspace import Workspace

SYSTEM = "You are a coding agent. You work in one folder, and all paths are relative to it."
CUT_OFF = "The reply was cut off within this call, so it was not made. Make several smaller ones."
INTERRUPTED = "This call was interrupted. It may have run in part: look before you repeat it."
REFUSED = "The user did not allow this call."


@dataclass
class Agent:
    """A session, the folder that it works on, and the model that it asks.

    `show` prints a text. `confirm` asks the person a question, and returns whether it is a yes.
    """

    store: Store
    workspace: Workspace
    show: Callable[[str], None]
    confirm: Callable[[str], bool]
    trusted: bool

    def open(self, chat: Session, model: str | None = None) -> None:
        """Work on this session, with the named model or the one that it used last."""
        note = chat.newest_note("model")
        name = model or (note.content["name"] if note else "claude-opus-5")
        self.model, self.model_name = model_named(name), name
        if model:
            chat.note("model", {"name": model})
        self.chat, self.recall = chat, Recall(self.store, chat)
        self.context = ContextManager(self.model.name, client=self.model.client, recall=True)
        self.frame = {"system": SYSTEM, "tools": [*DEFINITIONS, *self.recall.tools()]}

    def go_on(self, text: str = "") -> None:
        """Record what the user says. Then ask and call, until it is the user's turn again."""
        if text:
            for call in self.chat.pending():
                self.chat.answer(call, INTERRUPTED, is_error=True)
            self.chat.append("user", text, extra={"commit": self.workspace.checkpoint()})
        while (turn := self.chat.waits_for()) != "user":
            if turn == "model":
                self._ask()
            for call in self.chat.pending():
                self.show(f"  {call.name} {json.dumps(call.input)[:200]}\n")
                self.recall.answer(call) or self._call(call)

    def move(self, change: Callable[[], Any]) -> Any:
        """Change the conversation, then restore the files to the commit of its newest message."""
        self.workspace.mark.touch()
        try:
            done, commit = change(), (self.chat.info().metadata or {}).get("commit", "HEAD")
            for found in self.chat.audit():
                if found.rewound_by is None and found.entry.extra:
                    commit = found.entry.extra.get("commit", commit)
            self.workspace.restore(commit)
        finally:
            self.workspace.mark.unlink()
        return done

    def _ask(self) -> None:
        chat, model, frame = self.chat, self.model, self.frame
        self._report(self.context.manage(chat, **frame))
        request = chat.request(model.form, model=model.name, cache=True, **frame)
        try:
            chat.record(model.reply(request, self.show), request)
        except model.errors as error:
            self._report(self.context.recover(chat, error, **frame))
        self.show("\n")

    def _report(self, done: Outcome) -> None:
        if done.changed:
            self.show(f"[{done.status}: {done.tokens_before} to {done.tokens_after} tokens]\n")

    def _call(self, call: PendingCall) -> None:
        output, is_error = self._refusal(call), True
        if not output:
            self.chat.begin(call)
            output, is_error = call_tool(self.workspace, call.name, call.input)
        extra = {} if call.name in READING else {"commit": self.workspace.checkpoint()}
        self.chat.answer(call, output, is_error=is_error, extra=extra)
        self.show("".join(f"  | {line}\n" for line in output.strip()[:500].splitlines()))

    def _refusal(self, call: PendingCall) -> str | None:
        """Why this call is not made, if it is not."""
        if call.cut_off:
            return CUT_OFF
        if call.begun and call.name not in READING:
            return None if self.confirm("It was begun, and may have run. Again?") else INTERRUPTED
        return None if call.name != "run" or self.trusted or self.confirm("Run it?") else REFUSED
