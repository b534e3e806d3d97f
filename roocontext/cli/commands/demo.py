"""`roocontext demo`: a coding agent at work, on a window that is much too small for it.

The agent is a script, everything else is real: it reads and edits files in a folder of its own and
runs commands there, the session is in a real store, and the manager decides when something must
leave the view. It needs neither a key nor a network. The script is `demo_data/story.toml`.
"""

import io
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

import roocontext
from roocontext import reports
from roocontext.cli.command_context import CommandContext, command
from roocontext.cli.command_group import INSPECT
from roocontext.cli.exit_codes import Code, Refusal
from roocontext.cli.find_database import VARIABLE
from roocontext.cli.options import PROGRAM, argument
from roocontext.cli.screens import meter, results, timeline
from roocontext.cli.screens.screen import Screen
from roocontext.reports.naming import quantity

if TYPE_CHECKING:
    from roocontext import ContextManager, Session
    from roocontext.context import Outcome
    from roocontext.reports.gauge import Gauge
    from roocontext.reports.results import Demo


@dataclass(frozen=True, slots=True)
class ScriptedStep:
    """A call of a tool, with the text that the agent writes before it."""

    says: str
    tool: str
    given: Mapping[str, str] = field(default_factory=dict)

    def message(self, call_id: str) -> list[dict[str, Any]]:
        """The content of the agent's message."""
        call = {"type": "tool_use", "id": call_id, "name": self.tool, "input": dict(self.given)}
        return [{"type": "text", "text": self.says}, call]

    def shown(self) -> str:
        """The call in short."""
        return " ".join((self.tool, *list(self.given.values())[:1])).strip()


@dataclass(frozen=True, slots=True)
class Task:
    """A question of the user, the steps that the agent takes, and its answer."""

    name: str
    asked: str
    steps: tuple[ScriptedStep, ...]
    answer: str


@dataclass(frozen=True, slots=True)
class Story:
    """The agent's system prompt, the files of its project, and its tasks."""

    system: str
    files: Mapping[str, str]
    tasks: tuple[Task, ...]


@cache
def story() -> Story:
    """The story of the demo."""
    text = (files("roocontext.cli") / "demo_data" / "story.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text), Story)


class Workshop:
    """A folder with a small project, and the tools that work in it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in story().files.items():
            (folder / name).write_text(text)

    def do(self, step: ScriptedStep) -> str:
        """Do a step, and return the output of its tool."""
        output: str = getattr(self, step.tool)(**step.given)
        return output

    def list_files(self) -> str:
        """The files and their sizes."""
        files = sorted(path for path in self._folder.iterdir() if path.is_file())
        return "\n".join(f"{path.stat().st_size:>6} {path.name}" for path in files)

    def read_file(self, path: str) -> str:
        """A file with numbered lines."""
        lines = (self._folder / path).read_text().splitlines()
        return "\n".join(f"{number:>4}  {line}" for number, line in enumerate(lines, 1))

    def edit_file(self, path: str, old: str, new: str) -> str:
        """Replace a text that the file has once."""
        text = (self._folder / path).read_text()
        count = text.count(old)
        if count != 1:
            return f"Nothing was changed: the text occurs {count} times."
        (self._folder / path).write_text(text.replace(old, new))
        return f"{path}: 1 place was changed."

    def write_file(self, path: str, text: str) -> str:
        """Write a new file."""
        (self._folder / path).write_text(text)
        return f"{path}: {len(text.splitlines())} lines were written."

    def add_to_file(self, path: str, text: str) -> str:
        """Write at the end of a file."""
        with (self._folder / path).open("a") as file:
            file.write(text)
        return f"{path}: {len(text.splitlines())} lines were added."

    def search(self, text: str) -> str:
        """The lines that contain a text."""
        lines = [
            f"{path.name}:{number}: {line.strip()}"
            for path in sorted(self._folder.glob("*.py"))
            for number, line in enumerate(path.read_text().splitlines(), 1)
            if text in line
        ]
        return "\n".join(lines) or "Nothing was found."

    def run(self, command: str, code: str = "") -> str:
        """Run Python; its output and exit code."""
        words = [sys.executable if word == "python" else word for word in command.split()]
        words += [code] if code else []
        process = subprocess.run(  # noqa: S603 - commands of the script, in a folder of its own
            words, cwd=self._folder, capture_output=True, text=True, timeout=60, check=False
        )
        output = f"{process.stdout}{process.stderr}exit code {process.returncode}"
        # The tokens of the context must not depend on where the folder is.
        return output.replace(f"{self._folder.resolve()}/", "")


WINDOW = 2_400
"""The context window of the scripted model."""

_NEXT = ("sessions", "show last", "audit last", "tree last")
"""Commands that can be run after the demo."""

_HELD, _ROLE = len("~99,999"), len("assistant")

_WHY = {
    "clear": "Old tool outputs are missed the least. {cleared} of them now show a placeholder;"
    " entry {seq} records which. Nothing else has changed.",
    "condense": "Clearing was not enough. Entry {seq} is a summary that replaces {hidden} messages"
    " in the view. It is made of sentences from them: no model was called.",
    "truncate": "Entry {seq} is a marker that replaces {hidden} messages in the view. It only says"
    " that something was left out.",
}

app = typer.Typer()


@command(app, panel=INSPECT, document="Demo")
def demo(
    context: CommandContext,
    folder: Annotated[
        Path | None,
        argument(
            "FOLDER",
            "Where to work and leave the database. Default: a temporary folder.",
            readable=False,
        ),
    ] = None,
) -> None:
    """Watch an agent's session grow, be cleared, condensed, truncated, rewound and undone."""
    if context.obj.db is not None:
        raise Refusal("`demo` creates its own database and takes no --db.")
    place = folder or Path(tempfile.mkdtemp(prefix="roocontext-demo-"))
    if not _is_made_empty(place):
        raise Refusal("The folder is not empty; nothing in it was changed.", Code.REFUSED)
    database = place / "demo.db"
    screen = Screen(io.StringIO()) if context.as_json else Screen()
    invocation = context.obj
    invocation.bars.hide()
    with roocontext.Store.open(database, clock=invocation.clock, ids=invocation.ids) as store:
        chat = store.create(title="fix the parser")
        answer = _Player(screen, chat, Workshop(place / "project")).tell(database)
    context.show(answer, lambda _screen, _answer: _commands(screen, answer))


class _Player:
    """Plays the story, and shows what happens to the session."""

    def __init__(self, screen: Screen, chat: "Session", workshop: Workshop) -> None:
        self._screen = screen
        self._chat = chat
        self._workshop = workshop
        self._context: ContextManager = roocontext.ContextManager(limit=WINDOW)
        self._condensed: int | None = None
        self._did: list[str] = []

    def tell(self, database: Path) -> "Demo":
        """Everything, in order."""
        self._chapter("A coding agent is asked to fix a bug")
        left = " On the left are the tokens of the context at each call."
        self._say(
            "Its files and commands are real. Its model is a script with a context window of"
            f" {WINDOW:,} tokens, far too few for this. Before each call of the model, the manager"
            " checks whether something must leave the view. Nothing ever leaves the log."
            f"{'' if self._screen.narrow else left}"
        )
        self._screen.blank()
        for task in story().tasks:
            self._work(task)
        self._chapter("Truncate, on request")
        self._explain(self._context.truncate(self._chat, system=story().system))
        self._rewind()
        return self._end(database)

    def _work(self, task: Task) -> None:
        """Do a task step by step."""
        self._spoken("user", task.asked)
        self._chat.append("user", task.asked)
        for number, step in enumerate(task.steps, 1):
            held = self._manage()
            called = f"{task.name}-{number}"
            self._chat.append("assistant", step.message(called))
            output = self._workshop.do(step)
            result = {"type": "tool_result", "tool_use_id": called, "content": output}
            self._chat.append("user", [result])
            lines = quantity(output.count("\n") + 1, "line")
            arrow = self._screen.signs.arrow
            line = f"{step.says} {arrow} {step.shown()} ({lines} back)"
            self._spoken("assistant", line, held)
        self._spoken("assistant", task.answer, self._manage())
        self._chat.append("assistant", task.answer)

    def _manage(self) -> str:
        """Run the manager, and return the tokens of the context afterwards."""
        outcome = self._context.manage(self._chat, system=story().system)
        if outcome.changed:
            self._chapter(f"The manager acts: {outcome.status}")
            self._explain(outcome)
            self._screen.blank()
        return f"~{outcome.tokens_after:,}"

    def _explain(self, outcome: "Outcome") -> None:
        for step in outcome.steps:
            done = step.committed
            if step.plan.action == "condense" and self._condensed is None:
                self._condensed = done.seq
            self._did.append(step.status.value)
            self._say(
                _WHY[step.plan.action].format(
                    seq=done.seq, hidden=done.hidden, cleared=done.cleared
                )
            )
        arrow = self._screen.signs.arrow
        self._say(f"~{outcome.tokens_before:,} {arrow} ~{outcome.tokens_after:,} tokens")
        self._filled(self._gauge())

    def _rewind(self) -> None:
        assert self._condensed is not None
        self._chapter(f"Rewind past the condensation, to entry {self._condensed - 1}")
        done = self._chat.rewind(to=self._condensed - 1)
        self._did.append("rewound")
        self._say(
            f"Entry {done.seq} records it: {quantity(done.left, 'message')} left the view and"
            f" {done.returned} came back. The summary had not been written then, so it hides"
            " nothing."
        )
        self._filled(self._gauge())
        self._chapter("Undo")
        undone = self._chat.undo()
        self._did.append("undone")
        self._say(
            f"A rewind is an entry like any other, and entry {undone.seq} takes it back:"
            f" {quantity(undone.left, 'message')} left the view and {undone.returned} came back."
        )
        self._filled(self._gauge())

    def _end(self, database: Path) -> "Demo":
        chat, screen = self._chat, self._screen
        context = self._gauge()
        messages = chat.tokens(self._context.settings.counter)
        self._chapter("How full its window is now")
        self._filled(context)
        self._say(
            f"~{messages:,} of them are the messages. The rest is the system prompt, which is sent"
            " with each call but is no message."
        )
        self._chapter("The audit: every entry, and why the model sees it or not")
        rows = reports.history.audit_rows(chat)
        timeline.draw_audit(screen, rows, log=timeline.ShownLog(chat.info()), full=False)
        self._chapter("Verify: every hash, position, total and cache")
        checked = reports.results.Checked.of(chat.verify())
        results.draw_verified(screen, reports.results.verification_of([checked]))
        stats = chat.stats()
        return reports.results.Demo(
            database=str(database),
            session_id=chat.id,
            did=self._did,
            ok=checked.ok,
            entries=stats.entries,
            messages=stats.messages,
            visible_messages=stats.visible_messages,
            context=context,
        )

    def _gauge(self) -> "Gauge":
        """The tokens that a call of the model would send now, counted by the manager."""
        counter = self._context.settings.counter
        return reports.gauge.Gauge.of(
            tokens=self._context.preview(self._chat, system=story().system).tokens_before,
            exact=counter.exact,
            counter=counter.name,
            has_frame=True,
            model="a script",
            limit=WINDOW,
            limit_source="override",
        )

    def _filled(self, gauge: "Gauge") -> None:
        bar, style = meter.bar(self._screen, gauge)
        self._screen.line((f"{bar} ", style), meter.size_in_words(gauge), indent=2)

    def _chapter(self, title: str) -> None:
        self._screen.blank()
        self._screen.line((title, "title"))

    def _say(self, text: str) -> None:
        self._screen.line(text, indent=2)

    def _spoken(self, role: str, text: str, held: str = "") -> None:
        start = f"{held:>{_HELD}}  {role:<{_ROLE}} "
        if self._screen.narrow:
            self._screen.line((f"{role} ", f"role.{role}"), text, indent=2)
            return
        self._screen.hanging((start, f"role.{role}"), " " * len(start), (text, ""))


def _is_made_empty(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return not any(folder.iterdir())
    except OSError as error:
        line = f"The folder {str(folder)!r} cannot be used: {error.strerror}."
        raise Refusal(line, Code.NOT_FOUND) from None


def _commands(screen: Screen, answer: "Demo") -> None:
    """The commands to try on the database of the demo."""
    screen.blank()
    screen.line(("Look around in the demo's database", "title"))
    screen.raw(f"export {VARIABLE}={shlex.quote(answer.database)}", indent=2)
    for words in _NEXT:
        screen.raw(f"{_program()} {words}", indent=2)


def _program() -> str:
    """The name of the program, or its path if the shell does not find it."""
    started = Path(sys.argv[0])
    by_name = shutil.which(PROGRAM) is not None or started.name != PROGRAM
    return PROGRAM if by_name else shlex.quote(str(started))
