"""A growing transcript of Claude Code becomes the same session as an import of the whole file."""

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
    file.user("one")
    file.reply("m1", "two", stop="end_turn")
    file.compact("S")
    file.user("three")
    driver.append(*lines(file))
    assert seen(driver.chat()) == [("u", "S"), ("u", "three")]
    assert kinds(driver.chat()) == ["summary"]
    assert driver.load() == lines(file)
    driver.chat().uncover(next(one.seq for one in driver.chat().audit() if one.kind == "summary"))
    assert [text for _, text in seen(driver.chat())] == ["one", "two", "three"]


@pytest.mark.parametrize("pinned", [0, 1, 2])
def test_messages_bound_to_a_pin_stay_visible(quick, file, pinned):
    file.user("one")
    file.reply("m1", use("t1"))
    file.result("t1")
    quick.append(*lines(file))
    chat = quick.chat()
    visible = chat.view().messages
    chat.pin(visible[pinned].seq)
    cleared = {"compactedToolIds": ["t1"]}
    file.row("system", subtype="microcompact_boundary", microcompactMetadata=cleared)
    file.compact("S")
    file.user("two")
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


def test_compaction_keeps_its_kept_messages_visible(quick, file):
    file.user("one")
    file.reply("m1", "two", stop="end_turn")
    head = file.user("kept")
    tail = file.reply("m2", "kept too", stop="end_turn")
    anchor = f"u-{file.count + 2}"
    file.compact("S", preservedMessages={"anchorUuid": anchor, "uuids": [head, tail]})
    file.user("more", parent=tail)
    quick.append(*lines(file))
    assert [text for _, text in seen(quick.chat())] == ["S", "kept", "kept too", "more"]
    assert quick.load() == lines(file)


def test_message_kept_before_the_summary_is_written_again(quick, file):
    head = file.user("kept")
    file.reply("m1", "two", stop="end_turn")
    quick.append(*lines(file))
    other = ClaudeAgentDriver(quick.url)
    anchor = f"u-{file.count + 2}"
    file.compact("S", preservedMessages={"anchorUuid": anchor, "uuids": [head]})
    file.user("more")
    other.append(*lines(file))
    other.close()
    assert [text for _, text in seen(quick.chat())] == ["S", "kept", "more"]
    assert quick.load() == lines(file)
    file.user("then")
    quick.append(lines(file)[-1])
    assert [text for _, text in seen(quick.chat())] == ["S", "kept", "more", "then"]


def test_micro_compaction_clears(quick, file):
    file.user("go")
    file.reply("m1", use("t1"), stop="tool_use")
    file.result("t1", "long")
    file.row(
        "system", subtype="microcompact_boundary", microcompactMetadata={"compactedToolIds": ["t1"]}
    )
    file.reply("m2", "done", stop="end_turn")
    quick.append(*lines(file))
    (cleared,) = [one for one in quick.chat().view().messages if one.cleared]
    assert "long" not in str(cleared.content)
    assert quick.load() == lines(file)
    for odd in (5, ["t1"], {"compactedToolIds": 5}, {"compactedToolIds": [["t1"]]}):
        file.row("system", subtype="microcompact_boundary", microcompactMetadata=odd)
    quick.append(*lines(file))
    assert quick.load() == lines(file)


def test_view_of_a_growing_transcript_equals_an_import(quick, tmp_path):
    asked = iter(range(1_000_000))

    @settings(max_examples=examples(15))
    @given(
        st.lists(st.tuples(st.integers(0, 9), st.integers(0, 6)), min_size=1, max_size=24),
        st.lists(st.integers(1, 6), min_size=1, max_size=4),
    )
    def check(steps: list[tuple[int, int]], sizes: list[int]) -> None:
        number = next(asked)
        key = {"project_key": "-work", "session_id": f"r{number}"}
        file = Transcript(tmp_path / f"{number}" / "s-1.jsonl")
        ends = [file.user("begin")]
        for turn, (what, where) in enumerate(steps):
            if what < 4:
                ends.append(file.user(f"u{turn}"))
            elif what < 6:
                ends.append(file.reply(f"m{turn}", f"a{turn}", stop="end_turn"))
            elif what == 6:
                one = file.reply(f"m{turn}", use(f"x{turn}"))
                two = file.reply(f"m{turn}", use(f"y{turn}"), stop="tool_use")
                file.result(f"x{turn}", parent=one, sourceToolAssistantUUID=one)
                ends.append(file.result(f"y{turn}", parent=two))
            elif what == 7:
                file.compact(f"S{turn}")
                ends = [file.user(f"after {turn}")]
            elif what == 8:
                file.line({"type": "tag", "tag": str(turn)})
            else:
                ends.append(file.user(f"b{turn}", parent=ends[where % len(ends)]))
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


def test_side_chain_in_the_main_transcript_is_not_its_conversation(quick, file):
    file.user("go")
    file.user("for the agent", isSidechain=True, agentId="x", move=False)
    quick.append(*lines(file))
    assert seen(quick.chat()) == [("u", "go")]
    assert quick.load() == lines(file)


def test_redacted_message_leaves_its_place(driver, file):
    file.user("one")
    file.reply("m1", "the secret", stop="end_turn")
    file.user("three")
    driver.append(*lines(file))
    driver.chat().redact(driver.chat().message("u-2").seq)
    one, two, three = driver.load()
    assert [one, three] == lines(file)[::2]
    assert (two["uuid"], two["parentUuid"], two["type"]) == ("u-2", "u-1", "assistant")
    assert "secret" not in str(two)
    other = ClaudeAgentDriver(driver.url)
    file.reply("m2", "four", stop="end_turn")
    other.append(lines(file)[-1])
    other.close()
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
