"""What can be typed at the prompt besides messages for the model."""

from agent import Agent
from roocontext import AuditEntry, Rewound
from roocontext.log.readings import pieces, reader, walk


def rewind(agent: Agent, word: str) -> str:
    """Go back to right after entry N, or to before your last message. The files follow."""
    live = [it.message for it in agent.chat.live() if it.message.kind == "message"]
    typed = [message.seq for message in live if isinstance(message.content, str)]
    to = int(word) if word else max(typed, default=1) - 1
    return moved(agent.move(lambda: agent.chat.rewind(to)))


def undo(agent: Agent, _word: str) -> str:
    """Take back the last /rewind or /undo. The files follow."""
    return moved(agent.move(agent.chat.undo))


def uncover(agent: Agent, word: str) -> str:
    """Show the model again what summary N hides, or the newest one."""
    newest = agent.chat.restorable([])
    if not word and newest is None:
        return "Nothing is hidden."
    done = agent.chat.uncover(int(word) if word else newest.seq)
    return f"Entry {done.target} hides nothing now: {done.returned} messages returned to the view."


def fork(agent: Agent, word: str) -> str:
    """Go on in a copy of the session, as it was right after entry N, or as it is now."""
    before, at = agent.chat.id, int(word) if word else None
    copy = lambda: agent.open(agent.chat.fork(at), agent.model_name)  # noqa: E731 - used twice
    agent.move(copy) if word else copy()
    return f"This is session {agent.chat.id} now. The other one is {before}."


def history(agent: Agent, _word: str) -> str:
    """List all messages, summaries and rewinds, with what hides them from the model."""
    return "\n".join(line(found) for found in agent.chat.audit() if found.kind != "note")


def search(agent: Agent, words: str) -> str:
    """Find the messages with these words, hidden and rewound ones too."""
    hits = agent.store.search(words, session=agent.chat.id).hits
    found = (f"{hit.seq:>5} {hit.speaker:<9} {one_line(hit.snippet.text)}" for hit in hits)
    return "\n".join(found) or "Nothing was found."


def context(agent: Agent, _word: str) -> str:
    """Show how full the model's context is, and what is done before the next request."""
    next_, count = agent.context.preview(agent.chat, **agent.frame), len(agent.chat.view().messages)
    used = f"{next_.tokens_before:,} of {next_.window:,} tokens ({next_.counter}), {count} messages"
    return f"{used}. Before the next request: {next_.status.replace('noop', 'nothing to do')}."


def model(agent: Agent, name: str) -> str:
    """Ask another model from now on: claude-opus-5, or openai:gpt-5."""
    agent.open(agent.chat, name)
    return f"The model is {agent.model_name}."


def moved(done: Rewound) -> str:
    """What a rewind did."""
    return f"Back to entry {done.to}: {done.left} messages left the view, {done.returned} returned."


def line(found: AuditEntry) -> str:
    """An entry in one line."""
    blocks = reader(found.entry.format).blocks(found.role, found.content)[1] if found.role else []
    text = one_line(" ".join(piece.text for piece in walk(pieces(blocks)) if piece.text))
    hidden = f" (hidden by {found.hidden_by})" if found.hidden_by else ""
    who = found.kind if found.kind != "message" else "tool" if found.entry.answers else found.role
    return f"{found.seq:>5} {who:<9} {text}{hidden}"


def one_line(text: str) -> str:
    """The beginning of a text."""
    return " ".join(text.split())[:80]


ALL = (rewind, undo, uncover, fork, history, search, context, model)
COMMANDS = {f"/{it.__name__}": it for it in ALL}
HELP = "\n".join(f"{name:<9} {it.__doc__}" for name, it in COMMANDS.items())
