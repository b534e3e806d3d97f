"""Sessions that nobody would wish for, each with a name, and the other input of a manager."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from roocontext import Plan
from roocontext.log.counting import Budget
from roocontext.tokens import counter_for
from support.dialogue import WORDS, call, fill, result, text, work
from support.histories import IMAGE, STRANGE, THOUGHT

Build = Callable[[Any], Any]

WINDOW = 1_000
MANY = 100_000
"""Of letters; a million of them are counted in `tests/tokens`."""
SYSTEM = "a word " * 200
SYSTEM_TOKENS = counter_for("gpt-4o").count("user", SYSTEM, "anthropic")


@dataclass(frozen=True)
class Nasty:
    """One kind: how the session comes to be, and how the manager is set up for it.

    `build` gives back the session that is managed, if that is another one than it was given.
    """

    name: str
    build: Build
    ends: str
    options: dict[str, Any] = field(default_factory=dict)
    frame: dict[str, Any] = field(default_factory=dict)


KINDS: dict[str, Nasty] = {}


def kind(
    ends: str, *, frame: dict[str, Any] | None = None, **options: Any
) -> Callable[[Build], Build]:
    """Register a history under the name of its function; `ends` is how the default policy does."""

    def register(build: Build) -> Build:
        name = build.__name__.replace("_", " ")
        KINDS[name] = Nasty(name, build, ends, {"limit": WINDOW, **options}, frame or {})
        return build

    return register


def long(chat: Any, count: int = 40) -> list[int]:
    return fill(chat, count)


# One message that is too much


@kind("refused")
def one_text_over_the_limit_and_nothing_else(chat: Any) -> None:
    chat.append("user", WORDS * 50)


@kind("refused")
def the_newest_text_is_over_the_limit(chat: Any) -> None:
    fill(chat, 10)
    chat.append("user", WORDS * 50)


@kind("condensed")
def a_text_over_the_limit_in_the_middle(chat: Any) -> None:
    fill(chat, 10)
    chat.append("user", WORDS * 50)
    fill(chat, 10)


@kind("cleared")
def the_newest_output_is_over_the_limit(chat: Any) -> None:
    chat.append("user", "go")
    work(chat, ("a",), WORDS * 50)


@kind("cleared")
def the_newest_output_is_over_the_limit_and_a_little_is_old(chat: Any) -> None:
    fill(chat, 3)
    work(chat, ("a",), WORDS * 50)


@kind("refused", protected_tools=["run"])
def the_newest_output_is_over_the_limit_and_protected(chat: Any) -> None:
    chat.append("user", "go")
    work(chat, ("a",), WORDS * 50)


@kind("condensed")
def a_hundred_thousand_letters(chat: Any) -> None:
    fill(chat, 2)
    chat.append("user", "a" * MANY)
    fill(chat, 2)


@kind("condensed", limit=4_000)
def a_huge_image(chat: Any) -> None:
    data = "iVBORw0KGgo" * 50_000
    image = {"type": "base64", "media_type": "image/png", "data": data}
    long(chat, 60)
    chat.append("user", [text("look"), {"type": "image", "source": image}])
    long(chat, 61)


# Pins


@kind("refused")
def everything_is_pinned(chat: Any) -> None:
    for seq in long(chat):
        chat.pin(seq)


@kind("truncated")
def every_second_message_is_pinned_and_all_is_just_over(chat: Any) -> None:
    for seq in fill(chat, 31)[::2]:
        chat.pin(seq)


@kind("truncated")
def a_pin_in_the_middle_of_parallel_calls(chat: Any) -> None:
    fill(chat, 11)
    chat.append("assistant", [call(f"p{n}") for n in range(6)])
    results = [chat.append("user", [result(f"p{n}", WORDS * 3)]).seq for n in range(6)]
    chat.pin(results[3])
    long(chat)


@kind("truncated")
def a_pinned_output_that_is_most_of_the_window(chat: Any) -> None:
    fill(chat, 5)
    _, told = work(chat, ("a",), WORDS * 20)
    chat.pin(told)
    long(chat, 20)


@kind("condensed")
def a_pinned_summary(chat: Any) -> None:
    said = fill(chat, 8)
    done = chat.commit(Plan.condense(chat.view(), said[:6], "in short"))
    chat.pin(done.seq)
    long(chat)


# Tools


@kind("condensed")
def nothing_but_outputs_without_calls(chat: Any) -> None:
    for number in range(40):
        chat.append("user", [result(f"o{number}")])


@kind("refused")
def calls_that_were_never_answered(chat: Any) -> None:
    chat.append("user", "go")
    for number in range(40):
        chat.append("assistant", [text(WORDS), call(f"n{number}")])


@kind("condensed")
def a_call_waits_at_the_end(chat: Any) -> None:
    long(chat)
    chat.append("assistant", [THOUGHT, text("let me see"), call("w")])


@kind("cleared")
def three_of_five_calls_at_the_end_wait(chat: Any) -> None:
    long(chat, 41)
    chat.append("assistant", [call(f"w{n}") for n in range(5)])
    chat.append("user", [result("w0", WORDS * 9), result("w3", WORDS * 9)])


@kind("condensed")
def hundreds_of_parallel_calls(chat: Any) -> None:
    fill(chat, 11)
    names = [f"p{number}" for number in range(300)]
    work(chat, names)
    fill(chat, 5)


@kind("refused")
def hundreds_of_parallel_calls_answered_one_by_one(chat: Any) -> None:
    fill(chat, 11)
    names = [f"p{number}" for number in range(200)]
    chat.append("assistant", list(map(call, names)))
    for name in reversed(names):
        chat.append("user", [result(name)])


@kind("condensed")
def the_same_tool_ids_again_and_again(chat: Any) -> None:
    chat.append("user", "go")
    for _ in range(20):
        work(chat, ("a", "a", "b"))


@kind("condensed")
def results_come_before_their_calls(chat: Any) -> None:
    for number in range(30):
        chat.append("user", [result(f"r{number}")])
        chat.append("assistant", [call(f"r{number}")])


@kind("condensed")
def results_come_forty_messages_late(chat: Any) -> None:
    chat.append("assistant", [call(f"l{n}") for n in range(8)])
    fill(chat, 40)
    for number in range(8):
        chat.append("user", [result(f"l{number}")])


@kind("condensed")
def one_tool_group_spans_everything(chat: Any) -> None:
    chat.append("user", "go")
    chat.append("assistant", [call("far")])
    for number in range(20):
        chat.append("user", [result(f"c{number - 1}"), text(WORDS)])
        chat.append("assistant", [call(f"c{number}")])
    chat.append("user", [result("far"), result("c19")])


@kind("cleared")
def outputs_with_images_and_documents_inside(chat: Any) -> None:
    chat.append("user", "go")
    document = {"type": "document", "source": {"type": "text", "data": WORDS}}
    for number in range(20):
        work(chat, (f"d{number}",), [text(WORDS), IMAGE, document, STRANGE])


# Blocks


@kind("refused")
def nothing_but_thinking(chat: Any) -> None:
    for number in range(50):
        chat.append("assistant", [{**THOUGHT, "thinking": f"{number} {WORDS}"}])


@kind("condensed")
def thinking_between_all_calls(chat: Any) -> None:
    chat.append("user", "go")
    hidden = {"type": "redacted_thinking", "data": "x" * 200}
    for number in range(20):
        chat.append("assistant", [THOUGHT])
        chat.append("assistant", [hidden, call(f"t{number}")])
        chat.append("user", [result(f"t{number}")])


@kind("condensed", limit=100_000, limits=Budget(images=20))
def nothing_but_images(chat: Any) -> None:
    for _ in range(40):
        chat.append("user", [IMAGE])


@kind("condensed", limit=4_000, limits=Budget(images=1))
def two_images_where_one_may_be_sent(chat: Any) -> None:
    chat.append("user", [text("this one"), IMAGE])
    chat.append("assistant", "nice")
    chat.append("user", [text("and this one"), IMAGE])


@kind("refused", limit=40_000, limits=Budget(images=3))
def more_images_at_once_than_may_be_sent(chat: Any) -> None:
    fill(chat, 4)
    chat.append("user", [IMAGE] * 9)


@kind("condensed", limit=100_000, limits=Budget(bytes=20_000))
def more_bytes_than_may_be_sent(chat: Any) -> None:
    fill(chat, 30)
    image = {"type": "base64", "media_type": "image/png", "data": "AAAA" * 4_000}
    chat.append("user", [{"type": "image", "source": image}])
    fill(chat, 31)


@kind("condensed")
def empty_and_blank_texts(chat: Any) -> None:
    for number in range(60):
        blanks = [text(""), text(" \n"), text("\u200b"), text(WORDS if number % 2 else "")]
        chat.append(("user", "assistant")[number % 2], blanks)
        chat.append(("user", "assistant")[number % 2], "")


@kind("condensed")
def lone_surrogates_and_nul(chat: Any) -> None:
    for number in range(40):
        chat.append(("user", "assistant")[number % 2], f"\ud83d\0\udc00 {WORDS}\0")
    chat.append("user", [text("\ud800")])
