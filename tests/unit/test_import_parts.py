"""A transcript that is read in parts gives the events of one that is read as a whole."""

import json
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roocontext.formats.importers import claude_code, claude_code_parts
from support.examples import examples
from support.transcripts import Transcript, use

NEVER = 1 << 60


def of_some_release(path, random):
    """A transcript of one of the releases that follow rules of their own."""
    transcript = Transcript(path)
    transcript.version = random.choice(["2.0.11", "2.1.81", "2.1.220", "2.1.330"])
    return transcript


def strange(path, seed):
    """A transcript with everything that refers to other rows, mostly to near ones."""
    random = Random(seed)
    transcript = of_some_release(path, random)
    calls, uuids = [], []

    def some():
        near = random.random() < 0.8
        return random.choice(uuids[-4:] if near else uuids) if uuids else None

    def kept():
        if random.random() < 0.5:
            return {}
        if random.random() < 0.5:
            ids = {"anchorUuid": some(), "uuids": [some() for _ in range(3)]}
            return {"preservedMessages": ids}
        return {"preservedSegment": {"headUuid": some(), "tailUuid": some(), "anchorUuid": some()}}

    def note():
        parent = random.choice([transcript.at, some(), None, "unknown"])
        written = transcript.queued if random.random() < 0.3 else transcript.row
        written("system", parent=parent, content="x", move=random.random() < 0.5)

    def reply():
        named = [f"t{len(calls) + number}" for number in range(random.randrange(3))]
        calls.extend(named)
        for block in map(use, named) if named else ["words"]:
            transcript.reply(f"m{len(uuids) // 2}", block, stop=random.choice([None, "end_turn"]))

    def result():
        late = random.random() < 0.1
        call = random.choice(calls if late else calls[-3:]) if calls else "none"
        source = {"sourceToolAssistantUUID": some()} if random.random() < 0.2 else {}
        transcript.result(call, **source)

    def compact():
        logical = random.choice([..., some(), "unknown", None])
        transcript.compact(f"S{len(uuids)}", logical=logical, **kept())

    def cleared():
        ids = {"compactedToolIds": [random.choice(calls)] if calls else []}
        transcript.row("system", subtype="microcompact_boundary", microcompactMetadata=ids)

    def boundary():
        transcript.row("system", parent=None, subtype="compact_boundary", logicalParentUuid=some())

    def again():
        if lines := path.read_text().splitlines():
            line = random.choice(lines[-5:])
            record = json.loads(line)
            changed = {**record, "parentUuid": some()} if isinstance(record, dict) else record
            transcript.line(random.choice([record, changed]))

    def later():  # a row whose parent comes behind it
        transcript.user("early", parent=f"u-{transcript.count + 2}", move=False)

    def go_back():
        transcript.at = some()

    def removed():
        transcript.user("gone", uuid="[REDACTED]", move=False)

    def odd():
        transcript.line(random.choice([{"type": "summary", "summary": "T"}, 5, {"a": 1}]), "\n")

    often = [lambda: transcript.user("go on"), reply, result, note]
    seldom = [compact, cleared, boundary, again, later, go_back, removed, odd]
    seldom += [lambda: transcript.user("start", parent=random.choice([None, "unknown"]))]
    chosen = random.sample(seldom, random.randrange(4))
    for _ in range(random.randrange(2, 40)):
        is_odd = chosen and random.random() < 0.15
        random.choice(chosen if is_odd else often)()
        uuids[:] = [f"u-{number + 1}" for number in range(transcript.count)]
    return path


ODD = (
    "parent",
    "source",
    "cleared",
    "rootless",
    "answer",
    "call",
    "result",
    "summary",
    "late",
    "queued",
)
ODD += ("words", "on", "back", "compacted", "again", "boundary", "early", "nameless", "branch")


def busy(path, seed):
    """A transcript of an agent that works by itself: answers with calls, and hardly any prompt."""
    random = Random(seed)
    transcript = of_some_release(path, random)
    chosen = random.sample(ODD, random.choice([0, 1, 2, 3, 4]))
    open_calls, answered, answers, here = [], [], [], []

    def is_odd(what):
        return what in chosen and random.random() < 0.2

    def some():
        return f"u-{random.randrange(max(1, transcript.count - 6), transcript.count + 4)}"

    def parent(usual):
        return some() if is_odd("parent") else usual

    def note():
        if random.random() < 0.3:
            kind = random.choice(["progress", "attachment", "system"])
            fields = {"subtype": "microcompact_boundary"} if is_odd("cleared") else {}
            fields["microcompactMetadata"] = {"compactedToolIds": answered[-2:]}
            on_chain = random.random() < 0.8
            row = transcript.at if on_chain or not here else random.choice(here)[1]
            row = None if is_odd("rootless") else parent(row)
            written = transcript.queued if is_odd("queued") else transcript.row
            written(kind, parent=row, move=on_chain, **fields)

    def answer():
        name = random.choice(answers) if answers and is_odd("answer") else f"m{len(answers)}"
        answers.append(name)
        here.clear()
        for number in range(random.choice([0, 1, 1, 1, 2, 3])):
            is_again = answered and is_odd("call")
            call = random.choice(answered) if is_again else f"{len(answers)}.{number}"
            above = here[-1][1] if here and random.random() < 0.7 else transcript.at
            here.append((call, transcript.reply(name, use(call), parent=parent(above))))
            open_calls.append(here[-1])
            note()
            if random.random() < 0.2:
                result(open_calls.pop())
        if not here:
            transcript.reply(name, "done", stop=random.choice([None, "end_turn"]))

    def result(call):
        name, row = call
        above = random.choice([transcript.at, row, row])
        source = {}
        if random.random() < 0.5:
            source["sourceToolAssistantUUID"] = some() if is_odd("source") else row
        if is_odd("result"):
            name = random.choice(["none", "REDACTED", "", *answered[-3:]])
        is_summary = is_odd("summary")
        transcript.result(name, parent=parent(above), isCompactSummary=is_summary, **source)
        answered.append(name)
        note()

    def results():
        random.shuffle(open_calls)
        late = [call for call in open_calls if is_odd("late")]
        for call in [call for call in open_calls if call not in late]:
            if is_odd("words"):
                transcript.user("wait")
            result(call)
        open_calls[:] = late

    def surprise():
        if is_odd("on"):
            transcript.user("go on")
        if is_odd("back"):
            transcript.at = some()
        if is_odd("compacted"):
            keeps = {"preservedMessages": {"anchorUuid": some(), "uuids": [some(), some()]}}
            ends = {"headUuid": some(), "tailUuid": some(), "anchorUuid": some()}
            transcript.compact("S", **random.choice([{}, keeps, {"preservedSegment": ends}]))
        if is_odd("again"):
            again = json.loads(random.choice(path.read_text().splitlines()[-8:]))
            transcript.line(random.choice([again, {**again, "parentUuid": some()}]))
        if is_odd("boundary"):
            transcript.row("system", parent=some(), subtype="compact_boundary")
        if is_odd("early"):
            ahead = f"u-{transcript.count + random.randrange(2, 5)}"
            transcript.user("early", parent=ahead, move=random.random() < 0.5)
        if is_odd("nameless"):
            transcript.reply("", "no id")
        if is_odd("branch"):
            transcript.reply(f"b{transcript.count}", "left", move=False)

    transcript.user("work")
    for _ in range(random.randrange(2, 16)):
        answer()
        surprise()
        results()
        surprise()
    return path


def events(path, least):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(claude_code_parts, "LEAST", least)
        return [
            (source.session_id, source.metadata, [*source.events()], source.problems)
            for source in claude_code.sources(path)
        ]


@pytest.mark.parametrize("written", [strange, busy])
@settings(max_examples=examples(150))
@given(seed=st.integers(0, 1 << 32))
def test_the_order_is_that_of_the_whole(tmp_path_factory, written, seed):
    path = written(tmp_path_factory.mktemp("parts") / "s-1.jsonl", seed)
    whole = events(path, NEVER)
    for least in (1, 5):
        assert events(path, least) == whole


def test_what_comes_while_it_is_read_is_taken_later(tmp_path, monkeypatch):
    monkeypatch.setattr(claude_code_parts, "LEAST", 1)
    transcript = Transcript(tmp_path / "s-1.jsonl")
    for number in range(4):
        transcript.user(f"message {number}")
    (source,) = claude_code.sources(transcript.path)
    transcript.user("another branch", parent="u-1")
    assert [event.id for event in source.events()] == ["u-1", "u-2", "u-3", "u-4"]


@pytest.fixture
def transcript(tmp_path):
    return Transcript(tmp_path / "s-1.jsonl")


def sizes(path):
    """How many rows each part has, if each is as short as it can be."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(claude_code_parts, "LEAST", 1)
        parts = claude_code_parts.Parts.read(path, [], of_agent=False)
        return [len(rows) for rows in parts]


def test_a_part_begins_behind_the_last_result_of_an_answer(transcript):
    transcript.user("work")
    transcript.reply("m1", use("t1"))
    transcript.result("t1")
    calls = [transcript.reply("m2", use(call)) for call in ("t2", "t3")]
    progress = transcript.row("progress", parent=calls[0])
    transcript.result("t3", parent=calls[1])
    transcript.result("t2", parent=progress)
    transcript.row("attachment")
    transcript.reply("m3", "done")
    assert sizes(transcript.path) == [1, 2, 5, 2]
    assert events(transcript.path, 1) == events(transcript.path, NEVER)


def test_no_part_begins_while_a_call_waits_for_its_result(transcript):
    transcript.user("work")
    late = transcript.reply("m1", use("late"))
    transcript.reply("m1", use("t1"))
    transcript.result("t1")
    transcript.reply("m2", use("t2"))
    transcript.result("t2")
    transcript.result("late", parent=late)
    assert sizes(transcript.path) == [1, 6]


def test_no_part_begins_behind_an_answer_that_has_a_branch(transcript):
    transcript.user("work")
    call = transcript.reply("m1", use("t1"))
    transcript.reply("m2", "left", move=False)
    transcript.result("t1", parent=call)
    transcript.reply("m3", "done")
    assert sizes(transcript.path) == [1, 4]


def test_no_part_begins_behind_a_result_that_joins_an_earlier_answer(transcript):
    transcript.user("work")
    call = transcript.reply("m1", use("t1"))
    transcript.reply("m2", use("t2"))
    transcript.result("t2", parent=call)
    transcript.reply("m3", "done")
    assert sizes(transcript.path) == [1, 4]


def test_branches_below_an_answer_go_back_to_its_clearing(transcript):
    transcript.user("work")
    call = transcript.reply("m1", use("t1"))
    transcript.row("system", subtype="microcompact_boundary", move=False)
    result = transcript.result("t1", parent=call)
    transcript.reply("m2", "left")
    transcript.reply("m3", "done", parent=result)
    assert sizes(transcript.path) == [1, 3, 2]
    assert events(transcript.path, 1) == events(transcript.path, NEVER)


@pytest.mark.parametrize("notes", [0, 1])
def test_a_compaction_that_hangs_on_itself(transcript, notes):
    for words in ("one", "two"):
        transcript.user(words)
    itself = f"u-{3 + notes}"
    for _ in range(notes):
        transcript.row("attachment", parent=itself)
    transcript.row("system", parent=itself, subtype="compact_boundary")
    transcript.user("three")
    assert events(transcript.path, 1) == events(transcript.path, NEVER)


def test_a_kept_stretch_that_ends_with_its_compaction(transcript):
    for words in ("one", "two"):
        transcript.user(words)
    transcript.row("attachment")
    transcript.compact(preservedSegment={"headUuid": "u-3", "tailUuid": "u-4"})
    assert events(transcript.path, 1) == events(transcript.path, NEVER)


def test_a_compaction_that_keeps_what_comes_later(transcript):
    for words in ("one", "two"):
        transcript.user(words)
    transcript.compact(preservedMessages={"uuids": ["u-5"]})
    for words in ("three", "four"):
        transcript.user(words)
    transcript.compact(preservedSegment={"headUuid": "u-5", "tailUuid": "u-6"})
    assert events(transcript.path, 1) == events(transcript.path, NEVER)
