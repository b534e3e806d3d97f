"""Sessions that are hard to manage, each with a name, and how the manager is set up for it."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from roocontext import NewMessage, Plan
from roocontext.log.counting import Budget, Size
from roocontext.log.plan import Action, Counts
from roocontext.tokens import counter_for
from support.dialogue import WORDS, by_turns, call, exchange, fill, result, shown, text, work
from support.examples import TORTURE
from support.histories import IMAGE, STRANGE, THOUGHT

WINDOW = 1_000
LARGE = WORDS * 50
"""More than the window holds."""
SYSTEM = "a word " * 200
SYSTEM_TOKENS = counter_for("gpt-4o").count("user", SYSTEM, "anthropic")
MANY = 2_000 if TORTURE else 500
"""Thousands in the long run: what is quadratic takes its time."""


Part = int | NewMessage | list[NewMessage] | Callable[[Any], Any]
"""Some of what happens in a session: so many plain messages, these ones, or anything else."""


class Nasty(NamedTuple):
    """How a run of the default policy ends, what happens before it, and the settings."""

    ends: str
    parts: tuple[Part, ...]
    frame: dict[str, Any]
    options: dict[str, Any]

    def build(self, chat: Any) -> Any:
        """Let it happen; the session that is managed, which may be another one."""
        for part in self.parts:
            if callable(part):
                chat = part(chat) or chat
            else:
                rows = part if isinstance(part, list) else [part]
                chat.append_many(by_turns(part) if isinstance(part, int) else rows)
        return chat


def nasty(ends: str, *parts: Part, frame: dict[str, Any] | None = None, **options: Any) -> Nasty:
    return Nasty(ends, parts, frame or {}, {"limit": WINDOW, **options})


user, assistant = partial(NewMessage, "user"), partial(NewMessage, "assistant")
GO = user("go")


def many(count: int, make: Callable[..., list[NewMessage]]) -> list[NewMessage]:
    """The messages that this function makes of each number."""
    return [message for number in range(count) for message in make(number)]


def calls(name: str, count: int) -> list[Any]:
    return [call(f"{name}{number}") for number in range(count)]


def results(name: str, numbers: Any, output: Any = WORDS) -> list[NewMessage]:
    """Results, each in a message of its own."""
    return [user([result(f"{name}{number}", output)]) for number in numbers]


def image(data: str) -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}


DOCUMENT = {"type": "document", "source": {"type": "text", "data": WORDS}}


def alternating(number: int, content: Any) -> NewMessage:
    return NewMessage(("user", "assistant")[number % 2], content)


def blanks(number: int) -> list[NewMessage]:
    texts = ("", " \n", "\u200b", WORDS if number % 2 else "")
    return [alternating(number, [*map(text, texts)]), alternating(number, "")]


def result_and_next_call(number: int) -> list[NewMessage]:
    answer = user([result(f"c{number - 1}"), text(WORDS)])
    return [answer, assistant([call(f"c{number}")])]


def thinking_and_call(number: int) -> list[NewMessage]:
    hidden = {"type": "redacted_thinking", "data": "x" * 200}
    called = assistant([hidden, call(f"t{number}")])
    return [assistant([THOUGHT]), called, user([result(f"t{number}")])]


def pinned(chat: Any, count: int, every: int) -> None:
    for seq in fill(chat, count)[::every]:
        chat.pin(seq)


def pin_among_results(chat: Any) -> None:
    fill(chat, 11)
    chat.append("assistant", calls("p", 6))
    receipts = chat.append_many(results("p", range(6), WORDS * 3))
    chat.pin(receipts[3].seq)


def pinned_output(chat: Any) -> None:
    chat.pin(work(chat, ("a",), WORDS * 20)[1])


def pinned_summary(chat: Any) -> None:
    fill(chat, 8)
    condense(chat, 6)
    chat.pin(chat.head_seq())


# Other formats


def of_openai(number: int) -> list[NewMessage]:
    tool = {"type": "function", "function": {"name": "run", "arguments": '{"x": '}}
    asked = [{**tool, "id": f"{number}-{n}"} for n in range(2)]
    rows = [
        {"role": "user", "content": WORDS},
        {"role": "assistant", "content": None, "tool_calls": asked},
        *({"role": "tool", "tool_call_id": it["id"], "content": WORDS} for it in asked),
        {"role": "assistant", "content": WORDS},
    ]
    return [NewMessage(row["role"], row, "openai") for row in rows]


def of_gemini(number: int) -> list[NewMessage]:
    response = {"functionResponse": {"name": "run", "response": {"output": WORDS}}}
    asked = {"functionCall": {"name": "run", "args": {}}}
    rows = [
        ("user", [{"text": f"{number} {WORDS}"}]),
        ("model", [{"text": WORDS, "thought": True}, asked, asked]),
        ("user", [response, response]),
        ("model", [{"text": WORDS}, {"inlineData": {"mimeType": "image/png", "data": "AA"}}]),
    ]
    return [NewMessage(role, {"role": role, "parts": parts}, "gemini") for role, parts in rows]


def of_three_formats(number: int) -> list[NewMessage]:
    return [
        user(f"{number} {WORDS}"),
        NewMessage("model", {"role": "model", "parts": [{"text": WORDS}]}, "gemini"),
        NewMessage("user", {"role": "user", "content": [text(WORDS)]}, "openai"),
        *exchange(("a",), WORDS),
    ]


# What happened to the session before


def condense(chat: Any, count: int, first: int = 0, summary: str = "in short") -> None:
    """Condense so many of the visible messages."""
    chat.commit(Plan.condense(chat.view(), shown(chat)[first : first + count], summary))


def undone_rewinds(chat: Any) -> None:
    chat.rewind(10)
    chat.undo()
    chat.rewind(20)
    fill(chat, 4)
    chat.undo(force=True)


def forked_after_summary(chat: Any) -> Any:
    condense(chat, 20)
    summary = chat.head_seq()
    fill(chat, 4)
    return chat.fork(summary)


def several_summaries(chat: Any) -> None:
    for number in range(12):
        chosen = fill(chat, 6)[1:5]
        chat.commit(Plan.condense(chat.view(), chosen, f"summary {number} {WORDS}"))


def truncated_and_condensed(chat: Any) -> None:
    chat.commit(Plan.truncate(chat.view(), shown(chat)[10:30]))
    condense(chat, 10, first=5)


def cleared_outputs(chat: Any) -> None:
    places = [(work(chat, (f"c{n}",))[1], 0) for n in range(40)]
    chat.commit(Plan.clear(chat.view(), places, "x" * 80))


def lawless_plan(chat: Any) -> None:
    """The state after a compat plan without laws: half a tool call, with its summary at the end."""
    seqs = fill(chat, 4)
    asked, told = work(chat)
    fill(chat, 40)
    plan = Plan(
        head_seq=chat.head_seq(),
        action=Action.CONDENSE,
        hides=((seqs[1], asked),),
        rows=(assistant("in short"),),
        counts=Counts("given", Size(10), Size(9)),
        compat=True,
        at_end=True,
    )
    chat.commit(plan)
    assert told in shown(chat)


def redacted(chat: Any) -> None:
    for seq in (*fill(chat, 40)[5:35:7], *work(chat)):
        chat.redact(seq)


def strange_note(chat: Any) -> None:
    chat.note("compaction", {"failures": "many", "stalled": {"at": 0.5}, "event": None})


def reported(tokens: int) -> NewMessage:
    usage = {"input_tokens": tokens, "output_tokens": 10}
    return assistant("ok", usage=usage, model="gpt-4o")


NONSENSE = {"input_tokens": "many", "output_tokens": -1, "cache_read_input_tokens": None}

KINDS = {
    # One message that is too much
    "one text over the limit and nothing else": nasty("refused", user(LARGE)),
    "the newest text is over the limit": nasty("refused", 10, user(LARGE)),
    "a text over the limit in the middle": nasty("condensed", 10, user(LARGE), 10),
    "the newest output is over the limit": nasty("cleared", GO, exchange("a", LARGE)),
    "the newest output is over the limit and a little is old": nasty(
        "cleared", 3, exchange("a", LARGE)
    ),
    "the newest output is over the limit and protected": nasty(
        "refused", GO, exchange("a", LARGE), protected_tools=["run"]
    ),
    # A million letters are counted in `tests/tokens`.
    "a hundred thousand letters": nasty("condensed", 2, user("a" * 100_000), 2),
    "a huge image": nasty(
        "condensed", 60, user([text("look"), image("iVBORw0KGgo" * 50_000)]), 61, limit=4_000
    ),
    # Pins
    "everything is pinned": nasty("refused", partial(pinned, count=40, every=1)),
    "every second message is pinned and all is just over": nasty(
        "truncated", partial(pinned, count=31, every=2)
    ),
    "a pin in the middle of parallel calls": nasty("truncated", pin_among_results, 40),
    "a pinned output that is most of the window": nasty("truncated", 5, pinned_output, 20),
    "a pinned summary": nasty("condensed", pinned_summary, 40),
    # Tools
    "nothing but outputs without calls": nasty("condensed", results("o", range(40))),
    "calls that were never answered": nasty(
        "refused", GO, many(40, lambda n: [assistant([text(WORDS), call(f"n{n}")])])
    ),
    "a call waits at the end": nasty(
        "condensed", 40, assistant([THOUGHT, text("let me see"), call("w")])
    ),
    "three of five calls at the end wait": nasty(
        "cleared",
        *(41, assistant(calls("w", 5))),
        user([result("w0", WORDS * 9), result("w3", WORDS * 9)]),
    ),
    "hundreds of parallel calls": nasty(
        "condensed", 11, exchange([f"p{n}" for n in range(300)], WORDS), 5
    ),
    "hundreds of parallel calls answered one by one": nasty(
        "refused", 11, assistant(calls("p", 200)), results("p", reversed(range(200)))
    ),
    "the same tool ids again and again": nasty("condensed", GO, exchange("aab", WORDS) * 20),
    "results come before their calls": nasty(
        "condensed", many(30, lambda n: [user([result(f"r{n}")]), assistant([call(f"r{n}")])])
    ),
    "results come forty messages late": nasty(
        "condensed", assistant(calls("l", 8)), 40, results("l", range(8))
    ),
    "one tool group spans everything": nasty(
        "condensed",
        *(GO, assistant([call("far")]), many(20, result_and_next_call)),
        user([result("far"), result("c19")]),
    ),
    "outputs with images and documents inside": nasty(
        "cleared",
        GO,
        many(20, lambda n: exchange([f"d{n}"], [text(WORDS), IMAGE, DOCUMENT, STRANGE])),
    ),
    # Blocks
    "nothing but thinking": nasty(
        "refused", many(50, lambda n: [assistant([{**THOUGHT, "thinking": f"{n} {WORDS}"}])])
    ),
    "thinking between all calls": nasty("condensed", GO, many(20, thinking_and_call)),
    "nothing but images": nasty(
        "condensed", [user([IMAGE])] * 40, limit=100_000, limits=Budget(images=20)
    ),
    "two images where one may be sent": nasty(
        "condensed",
        [user([text("this one"), IMAGE]), assistant("nice"), user([text("and this one"), IMAGE])],
        limit=4_000,
        limits=Budget(images=1),
    ),
    "more images at once than may be sent": nasty(
        "refused", 4, user([IMAGE] * 9), limit=40_000, limits=Budget(images=3)
    ),
    "more bytes than may be sent": nasty(
        "condensed",
        *(30, user([image("AAAA" * 4_000)]), 31),
        limit=100_000,
        limits=Budget(bytes=20_000),
    ),
    "empty and blank texts": nasty("condensed", many(60, blanks)),
    "lone surrogates and nul": nasty(
        "condensed",
        many(40, lambda n: [alternating(n, f"\ud83d\0\udc00 {WORDS}\0")]),
        user([text("\ud800")]),
    ),
    # Roles and formats
    "only the assistant speaks": nasty(
        "condensed", many(60, lambda n: [assistant(f"{n} {WORDS}")])
    ),
    "rows of openai": nasty(
        "condensed",
        NewMessage("system", {"role": "system", "content": "be brief"}, "openai"),
        many(12, of_openai),
    ),
    "rows of gemini": nasty("condensed", many(12, of_gemini), limit=4_000),
    "three formats in one session": nasty("condensed", many(10, of_three_formats)),
    # What happened to the session before
    "nothing at all": nasty("noop"),
    "nothing but a summary": nasty("noop", 4, partial(condense, count=4)),
    "a summary that is larger than the window": nasty(
        "condensed", 40, partial(condense, count=40, summary=WORDS * 12), user("go on"), limit=200
    ),
    "rewound to before a summary": nasty(
        "condensed", 40, partial(condense, count=30), 10, lambda chat: chat.rewind(40) and None
    ),
    "rewound and taken back": nasty("condensed", 40, partial(condense, count=20), undone_rewinds),
    "forked after a summary": nasty("condensed", 40, forked_after_summary, 20),
    "several summaries stand side by side": nasty("condensed", several_summaries, 40),
    "truncated and then condensed": nasty("condensed", 40, truncated_and_condensed, 40),
    "all outputs are cleared already": nasty("condensed", GO, cleared_outputs),
    "hidden by a plan that kept no law": nasty("condensed", lawless_plan),
    "redacted in the middle": nasty("condensed", redacted, 9),
    "many tiny messages": nasty("condensed", many(MANY, lambda n: [alternating(n, f"{n}")])),
    "notes that somebody else wrote": nasty("condensed", 40, strange_note),
    "the provider reports ten times as much": nasty("condensed", 9, reported(900)),
    "the provider reports more than the window": nasty("noop", 9, reported(5_000_000)),
    "the provider reports nonsense": nasty("condensed", 40, assistant("ok", usage=NONSENSE)),
    # What is sent around the messages
    "the system prompt leaves nothing": nasty(
        "refused", 2, limit=SYSTEM_TOKENS, frame={"system": SYSTEM}
    ),
    "the system prompt is one token too long": nasty(
        "refused", 2, limit=SYSTEM_TOKENS - 1, frame={"system": SYSTEM}
    ),
    "a system prompt of blocks and large tools": nasty(
        "condensed",
        120,
        limit=4_000,
        frame={"system": [text("be brief \ud83d"), STRANGE], "tools": [{"name": "x" * 9_000}]},
    ),
    "a window of one token": nasty("refused", 3, limit=1),
    "a window without end": nasty("noop", 40, limit=10**12),
    "an answer longer than the window": nasty("noop", 12, output=10**9),
}
