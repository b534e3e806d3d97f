"""The loop: it asks the model and calls the tools until it is the user's turn."""

import json
import sys

import anthropic
import openai

from roocontext import ContextManager, PendingCall, Request, Session, Store
from roocontext.recall import Recall
from workspace import Workspace

SYSTEM = "You are a coding agent. You work in one folder, and all paths are relative to it."
INTERRUPTED = "This call was interrupted. It may have run in part: look before you repeat it."


class Agent:
    """A session, the folder that it works on, and the model that it asks."""

    def __init__(self, store: Store, workspace: Workspace, *, trusted: bool) -> None:
        self.store, self.workspace, self.trusted = store, workspace, trusted

    def open(self, chat: Session, model: str = "") -> None:
        """Work on this session, with the named model or the one that it used last."""
        note = chat.newest_note("model")
        name = model or (note.content["name"] if note else "claude-opus-5")
        is_gpt = name.startswith("openai:")
        self.client = openai.OpenAI() if is_gpt else anthropic.Anthropic()
        self.form = "openai-responses" if is_gpt else "anthropic"
        if model:
            chat.note("model", {"name": model})
        self.chat, self.recall = chat, Recall(self.store, chat)
        self.model = name.removeprefix("openai:")
        summariser = None if is_gpt else self.client  # without one they are extracted
        self.context = ContextManager(self.model, client=summariser, recall=True)
        self.frame = {"system": SYSTEM, "tools": [*self.workspace.tools, *self.recall.tools()]}
        show(f"Session {chat.id}, {name}. /help lists the commands.")

    def go_on(self, text: str = "") -> None:
        """Record what the user says. Then ask and call, until it is the user's turn again."""
        self.restore()
        if text:
            for call in self.chat.pending():
                self.chat.answer(call, INTERRUPTED, is_error=True)
            self.chat.append("user", text, extra={"commit": self.workspace.commit()})
        while (turn := self.chat.waits_for()) != "user":
            if turn == "model":
                self._ask()
            for call in self.chat.pending():
                given = json.dumps(call.input)  # of a program all of it: the user decides by it
                show(f"  {call.name} {given if call.name == 'run' else given[:200]}")
                self.recall.answer(call) or self._call(call)

    def restore(self) -> None:
        """After a rewind, make the files what they were when the newest message was recorded."""
        done = self.chat.newest_note("restored")
        if any(it.kind == "rewind" for it in self.chat.audit(after=done.seq if done else 0)):
            named = [it for it in self.chat.audit() if "commit" in (it.entry.extra or {})]
            live = [it for it in named if it.rewound_by is None] or named[:1]
            try:
                self.workspace.restore(live[-1].entry.extra["commit"] if live else "HEAD")
            finally:  # what fails is not tried again
                self.chat.note("restored", {})
            show(f"The model sees {len(self.chat.view().messages)} messages. Files restored.")

    def _ask(self) -> None:
        chat, frame = self.chat, self.frame
        done = self.context.manage(chat, **frame)
        request = chat.request(self.form, model=self.model, cache=True, **frame)
        try:
            chat.record(self._reply(request), request)
        except Exception as error:  # noqa: BLE001 - raised again, unless the prompt was too long
            done = self.context.recover(chat, error, **frame)
        sizes = f"{done.tokens_before} to {done.tokens_after} tokens"
        show(f"\n[{done.status}: {sizes}]" if done.changed else "")

    def _reply(self, request: Request) -> object:
        """The model's next message, as the SDK's object. Its text is shown while it comes."""
        if self.form == "openai-responses":
            for event in self.client.responses.create(model=self.model, stream=True, **request):
                if event.type == "response.output_text.delta":
                    show(event.delta, end="")
            return event.response
        with self.client.messages.stream(model=self.model, max_tokens=8_000, **request) as stream:
            for text in stream.text_stream:
                show(text, end="")
            return stream.get_final_message()

    def _call(self, call: PendingCall) -> None:
        changes = call.name not in ("read", "search")  # the others can be repeated after a crash
        output, is_error = "The user did not allow this call.", True
        if call.cut_off:
            output = "The reply was cut off within this call: make several smaller ones."
        elif call.begun and changes and not confirm("It was begun, and may have run. Again?"):
            output = INTERRUPTED
        elif call.name != "run" or call.begun or self.trusted or confirm("Run it?"):
            self.chat.begin(call)
            output, is_error = self.workspace.call(call.name, call.input)
        extra = {"commit": self.workspace.commit()} if changes else {}
        self.chat.answer(call, output, is_error=is_error, extra=extra)
        show("".join(f"  | {line}\n" for line in output.strip()[:500].splitlines()), end="")


def show(text: str, end: str = "\n") -> None:
    """Print a text without what could act on the terminal."""
    print("".join(it for it in text if it.isprintable() or it in "\n\t"), end=end, flush=True)


def confirm(question: str) -> bool:
    """Ask the person, if there is one."""
    return sys.stdin.isatty() and input(f"{question} [y/N] ").strip().lower() == "y"
