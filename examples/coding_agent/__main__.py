"""A coding agent in a terminal. However it ended, it goes on where it was.

python examples/coding_agent FOLDER           asks Claude; needs ANTHROPIC_API_KEY
python examples/coding_agent FOLDER --demo    asks a scripted model; needs no key
"""

import os
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from contextlib import ExitStack
from pathlib import Path

from agent import Agent
from commands import COMMANDS, HELP
from roocontext import RooContextError, Session, Store
from scripted_model import scripted_model
from workspace import Workspace


def main() -> None:
    """Open the session, finish what was begun, and answer one line after the other."""
    options = parsed()
    folder = options.folder.resolve()
    state = folder.with_name(f"{folder.name}.agent")  # outside of what the tools write to
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    with ExitStack() as stack:
        if options.demo:
            os.environ |= stack.enter_context(scripted_model())
        store = stack.enter_context(Store.open(options.store or state / "sessions.db"))
        workspace = Workspace(folder, state / "checkpoints.git")
        agent = Agent(store, workspace, show, confirm, options.yes)
        agent.open(opened(store, workspace, options), options.model)
        show(f"Session {agent.chat.id}, {agent.model.name}. /help lists the commands.\n")
        if workspace.mark.exists():
            agent.move(lambda: None)
        answer(agent, "")
        while (line := typed("> ")) is not None:
            answer(agent, line.strip())


def parsed() -> Namespace:
    """The arguments of the command."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="what it works in; created if it is missing")
    parser.add_argument("--demo", action="store_true", help="ask a scripted model")
    parser.add_argument("--yes", action="store_true", help="run programs without asking")
    parser.add_argument("--session", help="the id of a session, or `new`; by default the newest")
    parser.add_argument("--model", help="claude-..., or openai:...")
    parser.add_argument("--store", help="a database, such as postgresql://...")
    return parser.parse_args()


def opened(store: Store, workspace: Workspace, options: Namespace) -> Session:
    """The session that is asked for, or the newest one of the folder, or a new one."""
    place = {"folder": str(workspace.folder)}
    newest = [it.session_id for it in store.sessions(limit=1, where=place)]
    if options.session == "new" or not (options.session or newest):
        return store.create(metadata={**place, "commit": workspace.checkpoint()})
    return store.session(options.session or newest[0])


def answer(agent: Agent, line: str) -> None:
    """Do what a line says: a command, a message for the model, or nothing new to go on."""
    try:
        if line.startswith("/"):
            name, _, rest = line[1:].partition(" ")
            show(f"{COMMANDS[name](agent, rest.strip()) if name in COMMANDS else HELP}\n")
        elif line:
            agent.say(line)
        else:
            agent.go_on()
    except KeyboardInterrupt:
        show("\nInterrupted. Enter goes on.\n")
    except (RooContextError, ValueError, agent.model.errors) as error:
        show(f"\n{error}\n")


def typed(prompt: str) -> str | None:
    """The next line that is typed, or None at the end."""
    try:
        return input(prompt)
    except EOFError:
        return None


def show(text: str) -> None:
    """Print a text without what could act on the terminal."""
    sys.stdout.write("".join(it for it in text if it.isprintable() or it in "\n\t"))
    sys.stdout.flush()


def confirm(question: str) -> bool:
    """Ask the person, if there is one."""
    return sys.stdin.isatty() and (typed(f"{question} [y/N] ") or "").strip().lower() == "y"


if __name__ == "__main__":
    main()
