"""Random histories of a session, with everything in them that makes managing them hard."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from hypothesis import strategies as st

from roocontext import NewMessage, Plan
from roocontext.errors import InvalidPlan, NothingToUndo, UncoverRefused
from roocontext.log.readings import reader
from support.dialogue import call, result, text

IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
THOUGHT = {"type": "thinking", "thinking": "hm " * 9, "signature": "sig"}
STRANGE = {"type": "hologram", "depth": [1, 2.0, None], "of": "a cat"}
ODD = "\ud83d \0 \u6f22\u5b57 \U0001f469\u200d\U0001f469\u200d\U0001f467 "

_words = st.sampled_from([1, 4, 20, 20, 60, 60, 200])
_giant = st.sampled_from([400, 1_500])
_ids = st.lists(st.sampled_from("abcd"), min_size=1, max_size=4, unique=True)
_picks = st.integers(0, 40)
_counts = st.integers(1, 8)


def _scene(name: str, *given: Any) -> st.SearchStrategy[Any]:
    return st.tuples(st.just(name), *given)


HISTORIES = st.lists(
    st.one_of(
        _scene("ask", _words),
        _scene("ask", _words),
        _scene("answer", _words),
        _scene("work", _ids, _words),
        _scene("work", _ids, _words),
        _scene("work", _ids, _giant),
        _scene("work apart", _ids, _words),
        _scene("think apart", _ids, _words),
        _scene("interrupt", _ids),
        _scene("call", _ids),
        _scene("orphan", _ids, _words),
        _scene("giant", st.sampled_from(["user", "assistant"]), _giant),
        _scene("odd", _counts),
        _scene("foreign", _counts, _words),
        _scene("report", st.integers(0, 4_000)),
        _scene("pin", _picks),
        _scene("pin", _picks),
        _scene("unpin", _picks),
        _scene("condense", _picks, _counts, st.integers(0, 2)),
        _scene("truncate", _picks, _counts, st.just(0)),
        _scene("clear", _picks),
        _scene("uncover", _picks),
        _scene("rewind", st.integers(0, 12)),
        _scene("undo"),
        _scene("note"),
    ),
    min_size=3,
    max_size=22,
)
"""What happened in a session, in nasty orders."""


def play(chat: Any, history: Sequence[Any]) -> None:
    for kind, *given in history:
        _SCENES[kind](chat, *given)


def _work(chat: Any, ids: Sequence[str], size: int) -> None:
    chat.append("assistant", [THOUGHT, text("so"), *map(call, ids)])
    chat.append("user", _results(ids, size))


def _work_apart(chat: Any, ids: Sequence[str], size: int) -> None:
    for tool_id in ids:
        chat.append("assistant", [call(tool_id)])
    for tool_id in reversed(ids):
        chat.append("user", [result(tool_id, [text("word " * size), IMAGE])])


def _interrupt(chat: Any, ids: Sequence[str]) -> None:
    chat.append("assistant", list(map(call, ids)))
    chat.append("user", [*map(result, ids), text("no, stop")])


def _think_apart(chat: Any, ids: Sequence[str], size: int) -> None:
    chat.append("assistant", [THOUGHT])
    chat.append("assistant", [text("so")])
    chat.append("assistant", list(map(call, ids)))
    chat.append("user", _results(ids, size))


def _odd(chat: Any, count: int) -> None:
    blocks = [text(ODD), IMAGE, STRANGE, text(""), text(ODD * 9), IMAGE, text(" "), IMAGE]
    chat.append("user", blocks[:count])


def _foreign(chat: Any, count: int, size: int) -> None:
    said = "word " * size
    tool = {"id": "f", "type": "function", "function": {"name": "run", "arguments": "{}"}}
    response = {"functionResponse": {"name": "g", "response": {"output": said}}}
    rows = [
        NewMessage("user", {"role": "user", "content": said}, "openai"),
        NewMessage("assistant", {"role": "assistant", "tool_calls": [tool]}, "openai"),
        NewMessage("tool", {"role": "tool", "tool_call_id": "f", "content": said}, "openai"),
        NewMessage("user", {"role": "user", "parts": [{"text": said}]}, "gemini"),
        NewMessage(
            "model", {"role": "model", "parts": [{"functionCall": {"name": "g"}}]}, "gemini"
        ),
        NewMessage("user", {"role": "user", "parts": [response]}, "gemini"),
        NewMessage("model", {"role": "model", "parts": [{"text": said}]}, "gemini"),
    ]
    chat.append_many(rows[:count])


def _results(ids: Sequence[str], size: int) -> list[Any]:
    return [result(tool_id, "word " * size) for tool_id in ids]


def _on_a_row(act: Callable[[Any, int], object]) -> Callable[..., None]:
    """Do it to one of the visible rows, if there are any."""

    def scene(chat: Any, pick: int) -> None:
        if rows := chat.view().messages:
            act(chat, rows[pick % len(rows)].seq)

    return scene


def _hide(make: Callable[..., Plan]) -> Callable[..., None]:
    """Hide some rows in the middle, as somebody by hand would; what may not be hidden stays."""

    def scene(chat: Any, pick: int, count: int, companions: int) -> None:
        view = chat.view()
        first = pick % max(1, len(view.messages))
        chosen = [row.seq for row in view.messages[first : first + count]]
        companion = [NewMessage(("assistant", "user")[n], "ok") for n in range(companions)]
        with suppress(InvalidPlan):
            chat.commit(make(view, chosen, "in short", companions=companion))

    return scene


def _clear(chat: Any, pick: int) -> None:
    view = chat.view()
    blocks = [
        (row.seq, index)
        for row in view.messages
        for index in reader(row.format).outputs(row.content)
    ]
    if blocks:
        with suppress(InvalidPlan):
            chat.commit(Plan.clear(view, [blocks[pick % len(blocks)]], "gone"))


def _uncover(chat: Any, pick: int) -> None:
    kinds = ("summary", "marker", "clearing")
    controls = [one.seq for one in chat.internals.outline().controls if one.kind in kinds]
    if controls:
        with suppress(UncoverRefused):
            chat.uncover(controls[pick % len(controls)])


def _undo(chat: Any) -> None:
    with suppress(NothingToUndo):
        chat.undo(force=True)


_SCENES: dict[str, Callable[..., object]] = {
    "ask": lambda chat, size: chat.append("user", "word " * size),
    "answer": lambda chat, size: chat.append("assistant", [THOUGHT, text("word " * size)]),
    "work": _work,
    "work apart": _work_apart,
    "think apart": _think_apart,
    "interrupt": _interrupt,
    "call": lambda chat, ids: chat.append("assistant", [text("let me see"), *map(call, ids)]),
    "orphan": lambda chat, ids, size: chat.append("user", _results(ids, size)),
    "giant": lambda chat, role, size: chat.append(role, "word " * size),
    "odd": _odd,
    "foreign": _foreign,
    "report": lambda chat, tokens: chat.append(
        "assistant", "ok", usage={"input_tokens": tokens, "output_tokens": 5}
    ),
    "pin": _on_a_row(lambda chat, seq: chat.pin(seq)),
    "unpin": _on_a_row(lambda chat, seq: chat.unpin(seq)),
    "condense": _hide(Plan.condense),
    "truncate": _hide(Plan.truncate),
    "clear": _clear,
    "rewind": lambda chat, back: chat.rewind(max(0, chat.head().seq - back)),
    "undo": _undo,
    "uncover": _uncover,
    "note": lambda chat: chat.note("remark", {"of": "somebody"}),
}
