"""A transcript that is read in parts gives the events of one that is read as a whole."""

import json
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roocontext.formats import claude_code, claude_code_parts
from support.examples import examples
from support.transcripts import Transcript, use

NEVER = 1 << 60


def strange(path, seed):
    """A transcript with everything that refers to other rows, mostly to near ones."""
    random = Random(seed)
    transcript = Transcript(path)
    version = random.choice(["2.0.11", "2.1.81", "2.1.330"])  # each follows rules of its own
    transcript.line({"type": "mode", "version": version})
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
        transcript.row("system", parent=parent, content="x", move=random.random() < 0.5)

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


def events(path, least):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(claude_code_parts, "LEAST", least)
        return [
            (source.session_id, source.metadata, [*source.events()], source.problems)
            for source in claude_code.sources(path)
        ]


@settings(max_examples=examples(150))
@given(seed=st.integers(0, 1 << 32))
def test_the_order_is_that_of_the_whole(tmp_path_factory, seed):
    path = strange(tmp_path_factory.mktemp("parts") / "s-1.jsonl", seed)
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
