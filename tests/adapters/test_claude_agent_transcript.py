"""A growing transcript of Claude Code becomes the same session as an import of the whole file."""

from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roocontext import Store
from roocontext.formats.importers import claude_code
from roocontext.formats.player import play
from support.claude_agent_driver import ID, ClaudeAgentDriver, kinds, lines, seen
from support.examples import examples
from support.transcripts import Transcript, use

DRIVER = ClaudeAgentDriver


def test_compaction_is_a_summary(driver, file):
    file.write("one >two ~S three")
    driver.append(*lines(file))
    assert seen(driver.chat()) == [("u", "S"), ("u", "three")]
    assert kinds(driver.chat()) == ["summary"]
    assert driver.load() == lines(file)
    driver.chat().uncover(next(one.seq for one in driver.chat().audit() if one.kind == "summary"))
    assert [text for _, text in seen(driver.chat())] == ["one", "two", "three"]


@pytest.mark.parametrize("pinned", [0, 1, 2])
def test_messages_bound_to_a_pin_stay_visible(quick, file, pinned):
    file.write("one <t1 =t1")
    quick.append(*lines(file))
    chat = quick.chat()
    visible = chat.view().messages
    chat.pin(visible[pinned].seq)
    cleared = {"compactedToolIds": ["t1"]}
    file.row("system", subtype="microcompact_boundary", microcompactMetadata=cleared)
    file.write("~S two")
    quick.append(*lines(file))
    assert quick.load() == lines(file)
    stays = tuple(one for one in chat.view().messages if one in visible)
    assert stays == (visible[1:] if pinned else visible[:1])


@pytest.mark.parametrize("summary", ["", []])
def test_compaction_without_text_hides_nothing(quick, file, summary):
    file.user("one")
    file.compact(summary)
    file.user("two")
    quick.append(*lines(file))
    assert quick.load() == lines(file)
    assert [one.content for one in quick.chat().view().messages] == ["one", summary, "two"]


def test_message_kept_before_the_summary_is_written_again(quick, file):
    file.write("kept >two")
    quick.append(*lines(file))
    file.compact("S", preservedMessages={"anchorUuid": "u-4", "uuids": ["u-1"]})
    file.write("more")
    with closing(ClaudeAgentDriver(quick.url)) as other:
        other.append(*lines(file))
    assert [text for _, text in seen(quick.chat())] == ["S", "kept", "more"]
    assert quick.load() == lines(file)
    file.user("then")
    quick.append(lines(file)[-1])
    assert [text for _, text in seen(quick.chat())] == ["S", "kept", "more", "then"]


@pytest.mark.parametrize(
    "odd", [5, ["t1"], {"compactedToolIds": 5}, {"compactedToolIds": [["t1"]]}]
)
def test_odd_micro_compaction_clears_nothing(quick, file, odd):
    file.write("go <t1 =t1")
    file.row("system", subtype="microcompact_boundary", microcompactMetadata=odd)
    quick.append(*lines(file))
    assert quick.load() == lines(file)
    assert not any(one.cleared for one in quick.chat().view().messages)


STEPS = st.sampled_from(
    [*("prompt", "prompt", "answer", "tools", "clear", "compact", "keep"), "side", "tag", "branch"]
)


def step(file: Transcript, what: str, turn: int, ends: list[str], where: int) -> None:
    """Write what a program does next; a branch begins at one of the rows in `ends`."""
    match what:
        case "prompt":
            ends.append(file.user(f"u{turn}"))
        case "answer":
            ends.append(file.reply(f"m{turn}", f"a{turn}", stop="end_turn"))
        case "tools":
            one = file.reply(f"m{turn}", use(f"x{turn}"))
            two = file.reply(f"m{turn}", use(f"y{turn}"), stop="tool_use")
            file.result(f"x{turn}", parent=one, sourceToolAssistantUUID=one)
            ends.append(file.result(f"y{turn}", parent=two))
        case "clear":
            cleared = {"compactedToolIds": [f"x{number}" for number in range(turn)]}
            file.row("system", subtype="microcompact_boundary", microcompactMetadata=cleared)
        case "compact" | "keep":
            kept = {"anchorUuid": f"u-{file.count + 2}", "uuids": [ends[-1]]}
            file.compact(f"S{turn}", **({"preservedMessages": kept} if what == "keep" else {}))
            ends[:] = [file.user(f"after {turn}")]
        case "side":
            file.user(f"s{turn}", isSidechain=True, agentId="x", move=False)
        case "tag":
            file.line({"type": "tag", "tag": str(turn)})
        case "branch":
            ends.append(file.user(f"b{turn}", parent=ends[where % len(ends)]))


def test_view_of_a_growing_transcript_equals_an_import(quick, tmp_path):
    asked = iter(range(1_000_000))

    @settings(max_examples=examples(20))
    @given(
        st.lists(st.tuples(STEPS, st.integers(0, 6)), min_size=1, max_size=24),
        st.lists(st.integers(1, 6), min_size=1, max_size=4),
    )
    def check(steps: list[tuple[str, int]], sizes: list[int]) -> None:
        number = next(asked)
        key = {"project_key": "-work", "session_id": f"r{number}"}
        file = Transcript(tmp_path / f"{number}" / "s-1.jsonl")
        ends = [file.user("begin")]
        for turn, (what, where) in enumerate(steps):
            step(file, what, turn, ends, where)
        entries = lines(file)
        at, turn = 0, 0
        while at < len(entries):
            size = sizes[turn % len(sizes)]
            quick.append(*entries[at : at + size], key=key)
            at, turn = at + size, turn + 1
        assert quick.load(key) == entries
        name = f"claude-agent-sdk:-work/r{number}"
        with Store.open(":memory:") as whole:
            for source in claude_code.sources(file.path):
                play(whole, source)
            assert seen(quick.chat(name)) == seen(whole.session("claude-code:s-1"))

    check()


def test_redacted_message_leaves_its_place(driver, file):
    file.write("one >secret three")
    driver.append(*lines(file))
    driver.chat().redact(driver.chat().message("u-2").seq)
    one, two, three = driver.load()
    assert [one, three] == lines(file)[::2]
    assert (two["uuid"], two["parentUuid"], two["type"]) == ("u-2", "u-1", "assistant")
    assert "secret" not in str(two)
    file.write(">four")
    with closing(ClaudeAgentDriver(driver.url)) as other:
        other.append(lines(file)[-1])
    assert kinds(driver.chat()) == []


def test_entries_of_others_stay(driver, file):
    file.user("one")
    driver.append(*lines(file))
    driver.chat().append("user", "of somebody else")
    driver.chat().note("other", {})
    driver.chat().set_metadata({"team": "blue"})
    file.reply("m1", "two", stop="end_turn")
    driver.append(*lines(file))
    assert [text for _, text in seen(driver.chat())] == ["one", "of somebody else", "two"]
    (listed,) = driver.store.sessions(where={"team": "blue", "project": "-work"})
    assert listed.session_id == ID
    assert driver.load() == lines(file)
