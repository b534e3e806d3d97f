"""Sessions that have everything a screen can show, the same to the byte each time they are made."""

from typing import Any

from roocontext import NewMessage, Plan, Session, Store
from roocontext.tokens import counter_for
from support.dialogue import keep_estimate
from support.steady_sources import CountedIds, SetClock

START = 1_767_225_600_000
MODEL = "claude-sonnet-4-5"
HOSTILE = "evil\x1b[2J\x07\u202eid"
HOSTILE_TEXT = (
    "red \x1b[31m bell \x07 back\x08 clear \x1b[2J title \x1b]0;owned\x07 csi \x9b31m\r"
    " right\u202eleft \u2066isolate\u2069 tag\U000e0041 zero\u200bwidth \ud800 half\ttab\nnew line"
)

FAILURE = "FAILED test_parser.py::test_last - AssertionError: ['a', 'b'] != ['a', 'b', 'c']\n" * 8
SOURCE = "\n".join(
    f"{number:>3}  {line}"
    for number, line in enumerate(["def parse(words):", "    for i in range(len(words) - 1):"] * 12)
)


def call(tool_id: str, name: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": tool_id, "name": name, "input": arguments}


def result(tool_id: str, output: Any, **flags: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": tool_id, "content": output, **flags}


def said(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def spent(sent: int, received: int, cost: float) -> dict[str, Any]:
    return {"input_tokens": sent, "output_tokens": received, "cost": cost}


def build(url: str) -> None:
    clock = SetClock(START, step=60_000)
    with Store.open(url, clock=clock, ids=CountedIds(), durability="normal") as store:
        _hostile(store.create(HOSTILE, title="a \x1b[31mred\x1b[0m title"))
        _foreign(store.create("foreign", title="other formats"))
        store.create("empty")
        _parser(store.create("parser", title="fix the parser", metadata={"branch": "main"}))
        store.create("parsley")
        _build(store.create("build"))


def _parser(chat: Session) -> None:
    conversation = [
        ("user", "The parser drops the last token. Why? Please fix it.", None),
        ("assistant", [said("I read it."), call("t1", "read_file", path="parser.py")], (210, 40)),
        ("user", [result("t1", SOURCE)], None),
        ("assistant", [said("And the tests?"), call("t2", "run", command="pytest -q")], (700, 30)),
        ("user", [result("t2", FAILURE, is_error=True)], None),
        ("assistant", [call("t3", "edit", path="parser.py", line=6, new="for w in words:")], None),
        ("user", [result("t3", "1 line changed")], None),
        ("assistant", "Fixed: the loop ended one token too early. All 42 tests pass.", (990, 25)),
        ("user", "Good. Now write it into the changelog.", None),
        ("assistant", [call("t4", "edit", path="CHANGELOG.md", new="- It is kept.")], None),
        ("user", [result("t4", "1 line added")], None),
        ("assistant", "Done: CHANGELOG.md says that the last token is kept.", (1_100, 20)),
    ]
    for number, (role, content, usage) in enumerate(conversation, 1):
        model = MODEL if role == "assistant" else None
        told = spent(*usage, cost=0.01) if usage else None
        receipt = chat.append(role, content, message_id=f"m{number}", model=model, usage=told)
        if usage:
            keep_estimate(chat, receipt.seq, counter_for(MODEL), usage[0] - 40)
    counter = counter_for(MODEL)
    chat.commit(Plan.clear(chat.view(), [(5, 0), (7, 0)], counter=counter))
    summary = "The parser dropped the last token; the loop was fixed and all 42 tests pass."
    facts = {"summary": {"calls": 1, "input_tokens": 640, "output_tokens": 30, "cost": 0.002}}
    plan = Plan.condense(chat.view(), range(4, 11), summary, counter=counter, record=facts)
    chat.commit(plan)
    marker = "[A tool call was left out here]"
    chat.commit(Plan.truncate(chat.view(), [12, 13], marker, counter=counter))
    chat.rewind(to="m8")
    chat.append("user", "On second thoughts, show me the loop first.")
    chat.append("assistant", "Here it is: `for word in words`.")
    chat.undo(force=True)
    chat.append("user", "Thank you. My password is swordfish, by the way.")
    chat.pin(3)
    chat.pin(14)
    chat.unpin(14)
    chat.redact(chat.head().seq - 3)
    chat.note("remark", {"text": "checked by hand", "by": ["a", "b"]})


def _build(chat: Session) -> None:
    chat.append("user", "Why does the build fail? Look into it, but leave vendor/ alone.")
    for number in range(1, 9):
        tool = f"b{number}"
        run = call(tool, "run", command=f"make part{number}")
        chat.append("assistant", [said(f"I build part {number}."), run])
        chat.append("user", [result(tool, f"part{number}.c: error: token expected\n" * 9)])
    chat.append("assistant", "All eight parts fail at the same token: the header is broken.")
    chat.append("user", "Then fix the header.")


def _hostile(chat: Session) -> None:
    chat.append("user", HOSTILE_TEXT, message_id="\x1b[31mid")
    chat.append(
        "assistant",
        [
            {"type": "thinking", "thinking": "hm \x1b[0m", "signature": "c2ln"},
            {"type": "sensor", "value": [1, 1.0, True, 2**70], "nul": "a\0b"},
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "i\x1b/p", "data": "aGk="},
            },
            call("\x1b", "na\x1bme", arg="\x1b[5m", text="щит: 名 \u3164\u2800"),
        ],
    )
    heap = "z" + "\u0301" * 12
    chat.append("user", f"[bold red]no markup[/] :smile: 日本語のテキスト 👩‍🚀 e\u0301 {heap}")


def _foreign(chat: Session) -> None:
    asked = {"id": "c1", "type": "function", "function": {"name": "run", "arguments": '{"x": 1}'}}
    chat.append_many(
        [
            NewMessage("user", {"role": "user", "content": "What is x?"}, "openai"),
            NewMessage("assistant", {"content": None, "tool_calls": [asked]}, "openai"),
            NewMessage("tool", {"tool_call_id": "c1", "content": "x is 1"}, "openai"),
            NewMessage("model", {"role": "model", "parts": [{"text": "It is 1."}]}, "gemini"),
            NewMessage("user", "image " * 400),
        ]
    )
