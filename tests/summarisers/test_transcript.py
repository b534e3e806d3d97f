"""Messages as text: everything in them is told, nothing in them breaks it."""

from hypothesis import given

from roocontext.summarisers import transcript
from roocontext.summarisers.transcript import OUTPUT, as_text, weight
from support.any_messages import messages


def told(*blocks, role="user"):
    return "\n\n".join(transcript([{"role": role, "content": list(blocks)}]))


def test_transcript_names_the_speakers():
    messages = [
        {"role": "user", "content": "Why?"},
        {"role": "assistant", "content": [{"type": "text", "text": "Because."}]},
    ]
    assert transcript(messages) == ["[user]\nWhy?", "[assistant]\nBecause."]


def test_calls_and_results_are_written_with_the_tools_name():
    calls = [
        {"type": "tool_use", "id": "t1", "name": "run", "input": {"command": "ls"}},
        {"type": "tool_use", "id": "t2", "name": "edit", "input": {"lines": [1, 2]}},
    ]
    text = [{"type": "text", "text": "a"}]
    results = [
        {"type": "tool_result", "tool_use_id": "t2", "content": "no", "is_error": True},
        {"type": "tool_result", "tool_use_id": "t1", "content": text},
    ]
    messages = [{"role": "assistant", "content": calls}, {"role": "user", "content": results}]
    assert transcript(messages) == [
        "[assistant]\n[called run]\ncommand: ls\n[called edit]\nlines: [1, 2]",
        "[user]\n[error of edit]\nno\n[result of run]\na",
    ]


def test_long_outputs_and_arguments_lose_their_middle_and_say_how_much():
    output = "first\n" + "x" * 100_000 + "\nlast"
    cut = told({"type": "tool_result", "tool_use_id": "t", "content": output})
    assert weight(cut) < OUTPUT + 50
    assert cut.startswith("[user]\n[result]\nfirst\nx")
    assert cut.endswith("x\nlast")
    assert "[... 98,0" in cut
    given = {"content": output, "path": "a"}
    cut = told({"type": "tool_use", "id": "t", "name": "write", "input": given}, role="assistant")
    assert "characters left out" in cut
    assert cut.endswith("\npath: a")


def test_texts_are_never_cut():
    said = "word " * 10_000
    assert said in told({"type": "text", "text": said})


def test_media_are_named_and_their_bytes_left_out():
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A"}}
    paper = {"type": "document", "title": "Report", "source": {"type": "base64", "data": "A"}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": [image, "odd", 7]}
    assert (
        told(image, paper, result)
        == "[user]\n[image]\n[document Report]\n[result]\n[image]\nodd\n7"
    )


def test_thinking_is_left_out_and_unknown_blocks_are_not():
    assert told({"type": "thinking", "thinking": "t", "signature": "s"}) == ""
    assert told({"type": "redacted_thinking", "data": "d"}, role="assistant") == ""
    assert told({"type": "compaction", "content": "it was so"}) == "[user]\nit was so"
    assert told({"type": "vision", "of": {"x": 1}}) == '[user]\n[vision]\n{"of": {"x": 1}}'
    assert told({"no": "type"}) == '[user]\n[block]\n{"no": "type"}'


def test_message_without_text_is_left_out():
    assert (
        transcript([{"role": "user", "content": content} for content in ("", " \n", [], None)])
        == []
    )


def test_values_beyond_json_are_named_by_type():
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert as_text(deep) == "[list that cannot be written out]"
    assert as_text({"n": 10**5_000}) == "[dict that cannot be written out]"


@given(messages)
def test_any_json_can_be_written(said):
    for text in transcript(said):
        assert text.startswith(("[user]\n", "[assistant]\n"))
        text.encode()
