"""Compactions without a list in Codex CLI, as recorded with 0.59 to 0.104."""

from pathlib import Path
from typing import Any

import pytest

from roocontext.formats.importers import codex
from roocontext.formats.player import play
from support.codex_rollouts import SUMMARY, item, line, write


def take(store: Any, path: Path) -> Any:
    return play(store, next(codex.sources(path)))


def rollout(path: Path, version: str) -> Path:
    file = path / "rollout.jsonl"
    file.unlink(missing_ok=True)
    write(file, line("session_meta", id="aa", cli_version=version))
    return file


def texts(store: Any) -> list[str]:
    return [one.content["content"][0]["text"] for one in store.session("codex:aa").view().messages]


def words(size: int, word: str) -> str:
    return (word * size)[:size]


def marked(text: str) -> tuple[int, str, int]:
    """The length before the mark, the mark, and the length after it."""
    before, tokens, after = text.split("\N{HORIZONTAL ELLIPSIS}")
    return len(before), tokens, len(after)


SEVERAL = [
    # The messages before a compaction, and the lengths of what is sent. A cut one: before the
    # mark, tokens, after it.
    ([40_000, 40_000], [40_000, 40_000]),
    ([5, 40_004, 40_000], [(20_000, 1, 20_000), 40_000]),
    ([5, 39_999, 40_002], [(19_998, 1, 19_998), 40_002]),
    ([5, 39_998, 39_995], [(2, 1, 2), 39_998, 39_995]),
    ([5, 80_000], [80_000]),
    ([48, 79_996], [(2, 11, 2), 79_996]),
    ([200_000], [(40_000, 30_000, 40_000)]),
]


@pytest.mark.parametrize(("sizes", "sent"), SEVERAL)
def test_newest_user_messages_are_kept_up_to_their_limit(store, tmp_path, sizes, sent):
    path = rollout(tmp_path, "0.77.0")
    write(path, item("user", "<environment_context>"))
    for size in sizes:
        write(path, item("user", words(size, "abc ")), item("assistant", "yes"))
    write(path, line("compacted", message=f"{SUMMARY}\nS"), item("user", "more"))
    take(store, path)
    context, *found, summary, last = texts(store)
    assert (context, summary, last) == ("<environment_context>", f"{SUMMARY}\nS", "more")
    expected = [
        size if isinstance(size, int) else (size[0], f"{size[1]} tokens truncated", size[2])
        for size in sent
    ]
    assert [marked(text) if "truncated" in text else len(text) for text in found] == expected
    assert take(store, path).new == 0
    write(path, item("user", "and more"))
    assert take(store, path).new == 1


def test_characters_are_not_cut(store, tmp_path):
    path = rollout(tmp_path, "0.64.0")
    write(path, item("user", "\xe9\u20ac\U0001f600" * 9_000), item("user", "\xfc" * 30_000))
    write(path, line("compacted", message="S"))
    take(store, path)
    assert marked(texts(store)[0]) == (3_333, "15250 tokens truncated", 3_333)


def test_shortened_message_is_shortened_again_and_rolled_back(store, tmp_path):
    path = rollout(tmp_path, "0.95.0")
    write(path, item("user", words(50_000, "abc ")), item("user", words(50_000, "def ")))
    write(path, line("compacted", message=f"{SUMMARY}\nS"))
    write(path, item("user", words(30_006, "ghi ")), line("compacted", message=f"{SUMMARY}\nT"))
    take(store, path)
    cut, later, summary = texts(store)
    assert (marked(cut)[1], len(later), summary[-1]) == ("2 tokens truncated", 30_006, "T")
    write(path, line("event_msg", type="thread_rolled_back", num_turns=2), item("user", "six"))
    take(store, path)
    assert texts(store) == [cut, "six"]
    assert take(store, path).new == 0


def test_message_with_an_image_keeps_its_text(store, tmp_path):
    image = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
    tags = [
        {"type": "input_text", "text": text} for text in ("<image name=[Image #1]>", "</image>")
    ]
    look = {"type": "input_text", "text": "look"}
    message = {"type": "message", "role": "user"}
    path = rollout(tmp_path, "0.95.0")
    write(path, item("user", "one"))
    write(path, line("response_item", **message, content=[tags[0], image, tags[1], look, look]))
    write(path, line("compacted", message=f"{SUMMARY}\nS"))
    take(store, path)
    assert texts(store)[:2] == ["one", "looklook"]
