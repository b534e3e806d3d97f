"""A coding agent in a terminal. After a crash it continues at the same point.

/rewind [N]    go back to before your last message, or to right after entry N; so do the files
/undo          take back the last rewind; the files follow
/uncover [N]   show the model again what the newest summary hides, or what summary N hides
/fork          go on in a copy of the session
/history       list everything that is recorded, with what hides it from the model
/search WORDS  find the messages with these words, hidden and rewound ones too
/context       show how full the model's context is, and what is done before the next request
/model NAME    ask another model from now on: claude-opus-5, or openai:gpt-5
"""

import os
import readline  # noqa: F401 - lets `input` edit lines
import sys
from argparse import ArgumentParser
from contextlib import suppress

from agent import Agent, show
from roocontext import Store
from roocontext.cli.app import run
from workspace import Workspace


def main() -> None:
    """Open the session, finish what was begun, and do what each line says, until Ctrl-D."""
    parser = ArgumentParser("coding_agent", description="A coding agent in a terminal.")
    parser.add_argument("folder", help="what it works in; created if it is missing")
    parser.add_argument("--yes", action="store_true", help="run programs without asking")
    parser.add_argument("--session", help="the id of a session, or `new`; by default the newest")
    parser.add_argument("--model", default="", help="by default the one that was asked last")
    options = parser.parse_args()
    workspace = Workspace(options.folder)
    database = os.environ.setdefault("ROOCONTEXT_DB", str(workspace.state / "sessions.db"))
    with suppress(EOFError, KeyboardInterrupt), Store.open(database) as store:
        place = {"folder": str(workspace.folder)}
        newest = store.sessions(limit=1, where=place)
        name = options.session or (newest[0].session_id if newest else "new")
        chat = store.create(metadata=place) if name == "new" else store.session(name)
        agent = Agent(store, workspace, trusted=options.yes)
        agent.open(chat, options.model)
        line = ""
        while True:
            try:
                command(agent, line) if line.startswith("/") else agent.go_on(line)
            except (EOFError, KeyboardInterrupt):  # Ctrl-D at a question
                show("\nInterrupted.")
            except Exception as error:  # noqa: BLE001 - what is recorded is kept
                show(f"\n{type(error).__name__}: {error}")
            line = input("> " if agent.chat.waits_for() == "user" else "Enter continues > ").strip()


def command(agent: Agent, line: str) -> None:
    """Do what a command says. After a rewind the files follow."""
    chat, (name, _, word) = agent.chat, line.partition(" ")
    match name:
        case "/rewind":
            live = [it for it in chat.audit() if it.kind == "message" and not it.rewound_by]
            typed = [it.seq for it in live if isinstance(it.content, str)]
            chat.rewind(int(word) if word else max(typed, default=1) - 1)
        case "/undo":
            chat.undo()
        case "/uncover":
            hiding = [it.seq for it in chat.view().messages if it.kind in ("summary", "marker")]
            number = word or str(max(hiding, default=""))
            run(["uncover", chat.id, number]) if number else show("Nothing is hidden.")
        case "/fork":
            agent.open(chat.fork())
        case "/history":
            run(["audit", chat.id])
        case "/search":
            run(["search", "--session", chat.id, word])
        case "/context":
            coming = agent.context.preview(chat, **agent.frame)
            used = f"{coming.tokens_before:,} of {coming.window:,} tokens by {coming.counter}"
            show(f"{used}. Before the next request: {coming.reason or coming.status}")
        case "/model":
            agent.open(chat, word.strip())
        case _:
            show(str(__doc__))
    agent.restore()


sys.tracebacklimit = 0  # an error at the start, such as an unknown session, is one line
main()
