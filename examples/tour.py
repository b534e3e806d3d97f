"""A tour of the store: one coding session, condensed, truncated, rewound, undone and audited.

`python examples/tour.py` uses a database in a temporary folder, `python examples/tour.py PATH` the
one at PATH. No key and no network are needed. Nothing shown here is ever deleted.
"""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from roocontext import Head, Kind, NewMessage, Plan, Session, Store, View

SOURCE = "\n".join(
    f"{number:>4}  {line}"
    for number, line in enumerate(
        [
            "class Parser:",
            "    def __init__(self, tokens):",
            "        self.tokens = tokens",
            "",
            "    def parse(self):",
            "        for index in range(len(self.tokens) - 1):",
            "            yield self.node(self.tokens[index])",
            *(
                f"    def rule_{name}(self): ..."
                for name in ("expr", "term", "call", "name", "list")
            ),
        ],
        start=1,
    )
)
FAILURE = "FAILED tests/test_parser.py::test_last - assert ['a', 'b'] == ['a', 'b', 'c']\n" * 6
SUMMARY = (
    "The user reported that the parser drops the last token. parser.py line 6 ran one step too few"
    " (range(len(tokens) - 1)); it was fixed, and all 42 tests pass."
)


def call(tool_id: str, name: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": tool_id, "name": name, "input": arguments}


def result(tool_id: str, output: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": tool_id, "content": output}


def text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


CONVERSATION: list[tuple[str, Any]] = [
    ("user", "The parser drops the last token. Why? Please fix it."),
    ("assistant", [text_block("I will read it."), call("t1", "read_file", path="parser.py")]),
    ("user", [result("t1", SOURCE)]),
    ("assistant", [text_block("And the tests?"), call("t2", "run", command="pytest -q")]),
    ("user", [result("t2", FAILURE)]),
    ("assistant", [call("t3", "edit", path="parser.py", line=6, new="for token in self.tokens:")]),
    ("user", [result("t3", "1 line changed")]),
    ("assistant", [call("t4", "run", command="pytest -q")]),
    ("user", [result("t4", "42 passed in 0.31s")]),
    ("assistant", "Fixed: the loop in line 6 ended one token too early. All 42 tests pass."),
    ("user", "Good. Now write it into the changelog."),
    ("assistant", [call("t5", "edit", path="CHANGELOG.md", new="- The last token is kept.")]),
    ("user", [result("t5", "1 line added")]),
    ("assistant", "Done: CHANGELOG.md says that the last token is kept."),
]


def main(arguments: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(arguments[0]) if arguments else Path(folder) / "tour.db"
        with Store.open(path) as store:
            tour(store, "the database you named" if arguments else "a temporary SQLite file")


def tour(store: Store, where: str) -> None:
    chapter("Append", f"A session in {where}: {len(CONVERSATION)} messages with tool calls.")
    chat = store.create(title="fix the parser")
    record(chat)
    show(chat.view())
    saved = chat.head()

    chapter("Clear", "The two long tool outputs are shown as a placeholder from now on.")
    clear_outputs(chat)
    show(chat.view())

    chapter("Condense", "A summary takes the place of the work on the first question.")
    before_condense = chat.head_seq()
    condense_first_question(chat)
    show(chat.view())

    chapter("Truncate", "A marker hides the tool call of the second question and its result.")
    truncate_second_tool_call(chat)
    show(chat.view())

    chapter("Rewind", "Back to where the agent had just answered the first question (id m10).")
    rewound = chat.rewind(to="m10")
    print(f"   {rewound.left} messages left the view, {rewound.returned} came back into it.")
    show(chat.view())

    chapter("Undo", "The rewind is an entry of the log, so it can be taken back.")
    undone = chat.undo()
    print(f"   Entry {undone.seq} takes back the rewind, entry {undone.undone}.")
    show(chat.view())

    chapter("As of", f"What the model saw right after entry {before_condense}.")
    show(chat.view(as_of=before_condense))

    chapter("Fork", "A session of its own that begins as a copy up to the first answer.")
    fork(chat, at=rewound.to)

    chapter("Audit", "Every entry ever written, and why the model does or does not see it now.")
    audit(chat)

    chapter(
        "Verify", "The hash chain and the caches, against the head that was saved at the start."
    )
    verify(chat, saved)


def record(chat: Session) -> None:
    question, *rest = (
        NewMessage(role, content, message_id=f"m{number}", client_id=f"request-{number}")
        for number, (role, content) in enumerate(CONVERSATION, start=1)
    )
    first = chat.append(question.role, question.content, message_id="m1", client_id="request-1")
    chat.append_many(rest, expected_seq=first.head_seq)
    again = chat.append(question.role, question.content, client_id="request-1")
    print(f"   Repeating the first request gives its receipt: entry {again.seq}, new: {again.new}.")


def clear_outputs(chat: Session) -> None:
    view = chat.view()
    long = [
        (message.seq, index)
        for message in view.messages
        for index, block in enumerate(message.content)
        if isinstance(block, dict) and len(block.get("content", "")) > 300
    ]
    commit(chat, Plan.clear(view, long))


def condense_first_question(chat: Session) -> None:
    view = chat.view()
    answered = named(view, "m10")
    work = [message.seq for message in view.messages[1:] if message.seq <= answered]
    commit(chat, Plan.condense(view, work, SUMMARY))


def truncate_second_tool_call(chat: Session) -> None:
    view = chat.view()
    pair = [named(view, "m12"), named(view, "m13")]
    commit(chat, Plan.truncate(view, pair, "[A tool call was left out here]"))


def commit(chat: Session, plan: Plan) -> None:
    done = chat.commit(plan)
    counts = plan.counts
    assert counts is not None
    what = f"clears {done.cleared} outputs" if done.cleared else f"hides {done.hidden} messages"
    before, after = counts.before.tokens, counts.after.tokens
    print(f"   Entry {done.seq} {what}: {before:,} to {after:,} {counts.counter}.")


def fork(chat: Session, at: int) -> None:
    branch = chat.fork(at)
    branch.append("user", "Before the changelog: is there another loop like this one?")
    show(branch.view())
    print(f"   The session it was copied from still shows {len(chat.view().messages)} messages.")


def audit(chat: Session) -> None:
    for entry in chat.audit():
        if entry.visible:
            why = "visible" + ("; output cleared" if entry.cleared else "")
        elif entry.hider is not None:
            why = f"hidden by {entry.hider.kind} {entry.hider.seq}"
        else:
            why = entry.entry.note or "acts on the view"
        print(f"   {entry.seq:>4}  {entry.kind:<9} {entry.role or '-':<9}  {why}")
    sizes = chat.stats()
    print(
        f"   {sizes.entries} entries, {sizes.messages} messages:"
        f" {sizes.visible_messages} visible, {sizes.hidden_messages} hidden,"
        f" {sizes.rewound_messages} taken back. None deleted."
    )


def verify(chat: Session, saved: Head) -> None:
    found = chat.verify(saved)
    print(f"   {found.entries} entries checked, head {found.head.hash[:12]}..., ok: {found.ok}")
    print(f"   The provider gets {len(chat.messages())} messages, because roles must alternate:")
    for repair in chat.repairs():
        print(f"   {repair.seq:>4}  {repair.rule}")


def named(view: View, message_id: str) -> int:
    return next(message.seq for message in view.messages if message.message_id == message_id)


def chapter(title: str, text: str) -> None:
    print(f"\n{title}\n   {text}")


def show(view: View) -> None:
    print(f"   The model sees {len(view.messages)} messages:")
    for message in view.messages:
        sign = "" if message.kind is Kind.MESSAGE else f"[{message.kind}] "
        print(f"   {message.seq:>4}  {message.role:<9}  {sign}{shortened(message.content)}")


def shortened(content: Any) -> str:
    text = " ".join(" | ".join(parts(content)).split())
    return text if len(text) <= 60 else f"{text[:57]}..."


def parts(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
        return
    for block in content:
        match block:
            case {"type": "text", "text": text}:
                yield text
            case {"type": "tool_use", "name": name, "input": given}:
                yield f"{name}({', '.join(map(str, given.values()))})"
            case {"type": "tool_result", "content": output}:
                yield f"-> {output}"


if __name__ == "__main__":
    main(sys.argv[1:])
