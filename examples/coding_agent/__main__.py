"""A coding agent in a terminal. After any crash it goes on where it was."""

import readline  # noqa: F401 - lets `input` edit lines
import sys
from argparse import ArgumentParser
from contextlib import suppress
from pathlib import Path

from agent import Agent
from commands import COMMANDS, HELP
from roocontext import Session, Store
from workspace import Workspace


def main() -> None:
    """Open the session, finish what was begun, and answer each line until Ctrl-D."""
    parser = ArgumentParser("coding_agent", description=__doc__)
    parser.add_argument("folder", type=Path, help="what it works in; created if it is missing")
    parser.add_argument("--yes", action="store_true", help="run programs without asking")
    parser.add_argument("--session", help="the id of a session, or `new`; by default the newest")
    parser.add_argument("--model", help="claude-..., or openai:...; by default the last one")
    parser.add_argument("--store", help="a database, such as postgresql://...")
    options = parser.parse_args()
    workspace = Workspace(options.folder)
    with Store.open(options.store or workspace.state / "sessions.db") as store:
        agent = Agent(store, workspace, show, confirm, options.yes)
        agent.open(opened(store, workspace, options.session), options.model)
        show(f"Session {agent.chat.id}, {agent.model_name}. /help lists the commands.\n")
        if workspace.mark.exists():  # a process died before it moved the files
            agent.move(lambda: None)
        line = ""
        while True:
            answer(agent, line)
            line = input("> " if agent.chat.waits_for() == "user" else "Enter goes on > ").strip()


def opened(store: Store, workspace: Workspace, name: str | None) -> Session:
    """The session of this name, or else the newest one of the folder, or a new one."""
    place = {"folder": str(workspace.folder)}
    newest = store.sessions(limit=1, where=place)
    if name == "new" or not (name or newest):
        return store.create(metadata={**place, "commit": workspace.checkpoint()})
    return store.session(name or newest[0].session_id)


def answer(agent: Agent, line: str) -> None:
    """Do what a line says: a command, or a message for the model. An empty one goes on."""
    name, _, rest = line.partition(" ")
    try:
        if line.startswith("/"):
            show(f"{COMMANDS[name](agent, rest.strip()) if name in COMMANDS else HELP}\n")
        else:
            agent.go_on(line)
    except (EOFError, KeyboardInterrupt):  # Ctrl-D at a question
        show("\nInterrupted.\n")
    except Exception as error:  # noqa: BLE001 - what is recorded is kept, and the prompt goes on
        show(f"\n{type(error).__name__}: {error}\n")


def show(text: str) -> None:
    """Print a text without what could act on the terminal."""
    print("".join(it for it in text if it.isprintable() or it in "\n\t"), end="", flush=True)


def confirm(question: str) -> bool:
    """Ask the person, if there is one."""
    return sys.stdin.isatty() and input(f"{question} [y/N] ").strip().lower() == "y"


sys.tracebacklimit = 0  # an error at the start, such as an unknown session, is one line
with suppress(EOFError, KeyboardInterrupt):
    main()
