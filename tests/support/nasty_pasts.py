"""More nasty sessions: of other formats, with a past, and what is sent around their messages."""

from typing import Any

from roocontext import NewMessage, Plan
from roocontext.log.counting import Size
from roocontext.log.plan import Action, Counts
from support.dialogue import WORDS, fill, shown, text, work
from support.examples import TORTURE
from support.histories import STRANGE
from support.nasty_sessions import SYSTEM, SYSTEM_TOKENS, kind, long

# Roles and formats


@kind("condensed")
def only_the_assistant_speaks(chat: Any) -> None:
    for number in range(60):
        chat.append("assistant", f"{number} {WORDS}")


@kind("condensed")
def rows_of_openai(chat: Any) -> None:
    chat.append("system", {"role": "system", "content": "be brief"}, format="openai")
    tool = {"type": "function", "function": {"name": "run", "arguments": '{"x": '}}
    for number in range(12):
        calls = [{**tool, "id": f"{number}-{n}"} for n in range(2)]
        rows = [
            {"role": "user", "content": WORDS},
            {"role": "assistant", "content": None, "tool_calls": calls},
            *({"role": "tool", "tool_call_id": it["id"], "content": WORDS} for it in calls),
            {"role": "assistant", "content": WORDS},
        ]
        chat.append_many([NewMessage(row["role"], row, "openai") for row in rows])


@kind("condensed", limit=4_000)
def rows_of_gemini(chat: Any) -> None:
    response = {"functionResponse": {"name": "run", "response": {"output": WORDS}}}
    calls = {"functionCall": {"name": "run", "args": {}}}
    for number in range(12):
        rows = [
            ("user", [{"text": f"{number} {WORDS}"}]),
            ("model", [{"text": WORDS, "thought": True}, calls, calls]),
            ("user", [response, response]),
            ("model", [{"text": WORDS}, {"inlineData": {"mimeType": "image/png", "data": "AA"}}]),
        ]
        chat.append_many(
            [NewMessage(role, {"role": role, "parts": parts}, "gemini") for role, parts in rows]
        )


@kind("condensed")
def three_formats_in_one_session(chat: Any) -> None:
    for number in range(10):
        chat.append("user", f"{number} {WORDS}")
        said = {"role": "model", "parts": [{"text": WORDS}]}
        chat.append("model", said, format="gemini")
        asked = {"role": "user", "content": [{"type": "text", "text": WORDS}]}
        chat.append("user", asked, format="openai")
        work(chat, ("a",))


# What happened to the session before


@kind("noop")
def nothing_at_all(chat: Any) -> None:
    """A session that was only created."""


@kind("noop")
def nothing_but_a_summary(chat: Any) -> None:
    said = fill(chat, 4)
    chat.commit(Plan.condense(chat.view(), said, "All that was said."))


@kind("condensed", limit=200)
def a_summary_that_is_larger_than_the_window(chat: Any) -> None:
    said = long(chat)
    chat.commit(Plan.condense(chat.view(), said, WORDS * 12))
    chat.append("user", "go on")


@kind("condensed")
def rewound_to_before_a_summary(chat: Any) -> None:
    said = long(chat)
    chat.commit(Plan.condense(chat.view(), said[:30], "in short"))
    fill(chat, 10)
    chat.rewind(said[-1])


@kind("condensed")
def rewound_and_taken_back(chat: Any) -> None:
    said = long(chat)
    chat.commit(Plan.condense(chat.view(), said[:20], "in short"))
    chat.rewind(said[9])
    chat.undo()
    chat.rewind(said[19])
    fill(chat, 4)
    chat.undo(force=True)


@kind("condensed")
def forked_after_a_summary(chat: Any) -> Any:
    said = long(chat)
    done = chat.commit(Plan.condense(chat.view(), said[:20], "in short"))
    fill(chat, 4)
    fork = chat.fork(done.seq)
    fill(fork, 20)
    return fork


@kind("condensed")
def several_summaries_stand_side_by_side(chat: Any) -> None:
    for number in range(12):
        said = fill(chat, 6)
        chat.commit(Plan.condense(chat.view(), said[1:5], f"summary {number} {WORDS}"))
    long(chat)


@kind("condensed")
def truncated_and_then_condensed(chat: Any) -> None:
    said = long(chat)
    chat.commit(Plan.truncate(chat.view(), said[10:30]))
    chat.commit(Plan.condense(chat.view(), shown(chat)[5:15], "in short"))
    long(chat)


@kind("condensed")
def all_outputs_are_cleared_already(chat: Any) -> None:
    chat.append("user", "go")
    places = [(work(chat, (f"c{n}",))[1], 0) for n in range(40)]
    chat.commit(Plan.clear(chat.view(), places, "x" * 80))


@kind("condensed")
def hidden_by_a_plan_that_kept_no_law(chat: Any) -> None:
    """The state after a compat plan without laws: half a tool call, with its summary at the end."""
    said = fill(chat, 4)
    asked, told = work(chat)
    long(chat)
    row = NewMessage("assistant", "in short")
    counts = Counts("given", Size(10), Size(9))
    hides = ((said[1], asked),)
    plan = Plan(
        head_seq=chat.head_seq(),
        action=Action.CONDENSE,
        hides=hides,
        rows=(row,),
        counts=counts,
        compat=True,
        at_end=True,
    )
    chat.commit(plan)
    assert told in shown(chat)


@kind("condensed")
def redacted_in_the_middle(chat: Any) -> None:
    said = long(chat)
    asked, told = work(chat)
    for seq in (*said[5:35:7], asked, told):
        chat.redact(seq)
    long(chat, 9)


@kind("condensed")
def many_tiny_messages(chat: Any) -> None:
    """Thousands in the long run: what is quadratic takes its time."""
    count = 2_000 if TORTURE else 500
    rows = [NewMessage(("user", "assistant")[n % 2], f"{n}") for n in range(count)]
    chat.append_many(rows)


@kind("condensed")
def notes_that_somebody_else_wrote(chat: Any) -> None:
    long(chat)
    chat.note("compaction", {"failures": "many", "stalled": {"at": 0.5}, "event": None})


@kind("condensed")
def the_provider_reports_ten_times_as_much(chat: Any) -> None:
    fill(chat, 9)
    usage = {"input_tokens": 900, "output_tokens": 10}
    chat.append("assistant", "ok", usage=usage, model="gpt-4o")


@kind("noop")
def the_provider_reports_more_than_the_window(chat: Any) -> None:
    fill(chat, 9)
    usage = {"input_tokens": 5_000_000, "output_tokens": 10}
    chat.append("assistant", "ok", usage=usage, model="gpt-4o")


@kind("condensed")
def the_provider_reports_nonsense(chat: Any) -> None:
    long(chat)
    usage = {"input_tokens": "many", "output_tokens": -1, "cache_read_input_tokens": None}
    chat.append("assistant", "ok", usage=usage)


# What is sent around the messages


@kind("refused", limit=SYSTEM_TOKENS, frame={"system": SYSTEM})
def the_system_prompt_leaves_nothing(chat: Any) -> None:
    fill(chat, 2)


@kind("refused", limit=SYSTEM_TOKENS - 1, frame={"system": SYSTEM})
def the_system_prompt_is_one_token_too_long(chat: Any) -> None:
    fill(chat, 2)


@kind(
    "condensed",
    limit=4_000,
    frame={"system": [text("be brief \ud83d"), STRANGE], "tools": [{"name": "x" * 9_000}]},
)
def a_system_prompt_of_blocks_and_large_tools(chat: Any) -> None:
    long(chat, 120)


@kind("refused", limit=1)
def a_window_of_one_token(chat: Any) -> None:
    fill(chat, 3)


@kind("noop", limit=10**12)
def a_window_without_end(chat: Any) -> None:
    long(chat)


@kind("noop", output=10**9)
def an_answer_longer_than_the_window(chat: Any) -> None:
    fill(chat, 12)
