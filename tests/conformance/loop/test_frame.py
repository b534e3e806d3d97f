"""The system prompt and the tools are recorded when they change, as they were given."""

import json

import pytest

from roocontext.errors import InvalidMessage, InvalidOption, MessageNotFound
from roocontext.log.forms import forms
from roocontext.log.request import Frame
from roocontext.tokens.spending import spending
from support.async_manager import manager
from support.dialogue import fill, text

pytestmark = pytest.mark.every_leg

TOOLS = [{"name": "run", "description": "Run it.", "input_schema": {"type": "object"}}]
SECRET = "the secret prompt"


def recorded(chat):
    return [note.content for note in chat.notes("frame")]


def test_frame_is_recorded_once_until_it_changes(chat):
    assert chat.frame() is None
    assert chat.internals.keep_frame(system="Be brief.", tools=TOOLS)
    for _ in range(2):
        assert not chat.internals.keep_frame(system="Be brief.", tools=TOOLS)
    assert not chat.internals.keep_frame()
    assert chat.frame() == Frame("Be brief.", tuple(TOOLS))
    assert chat.internals.keep_frame(system="Be long.", tools=TOOLS)
    assert chat.internals.keep_frame(system="Be brief.", tools=TOOLS)
    said = [content["system"] for content in recorded(chat)]
    assert said == ["Be brief.", "Be long.", "Be brief."]
    assert chat.verify().ok


def test_omitted_part_of_a_frame_stays_as_recorded(chat):
    chat.internals.keep_frame(tools=TOOLS)
    assert chat.frame() == Frame(None, tuple(TOOLS))
    assert chat.internals.keep_frame(system=({"type": "text", "text": "Be brief."},))
    assert not chat.internals.keep_frame(tools=tuple(TOOLS))
    assert chat.frame() == Frame([{"type": "text", "text": "Be brief."}], tuple(TOOLS))
    chat.append("user", "hi")
    manager(chat, limit=100_000).manage(chat, tools=[])
    assert chat.frame().tools == ()
    assert "tools" not in chat.request()


def test_managing_records_the_frame_and_a_preview_does_not(chat):
    fill(chat, 3)
    context = manager(chat, limit=100_000)
    context.preview(chat, system="Be brief.", tools=TOOLS)
    context.will_manage(chat, system="Be brief.", tools=TOOLS)
    assert recorded(chat) == []
    head = chat.head_seq()
    for _ in range(3):
        context.manage(chat, system="Be brief.", tools=TOOLS)
    context.manage(chat)
    assert recorded(chat) == [{"system": "Be brief.", "tools": TOOLS}]
    assert chat.head_seq() == head


def test_rewind_never_brings_an_old_frame_back(chat):
    fill(chat, 2)
    chat.internals.keep_frame(system="first")
    fill(chat, 2)
    chat.internals.keep_frame(system="second")
    chat.rewind(1)
    assert chat.frame().system == "second"
    assert chat.frame(as_of=3).system == "first"
    assert chat.frame(as_of=2) is None
    chat.undo()
    assert not chat.internals.keep_frame(system="second")


def test_frame_is_recorded_as_it_was_given(chat):
    """Before any form converts it or marks it for a cache."""
    chat.append("user", "Look.")
    for form in ("anthropic", "openai", "openai-responses", "gemini"):
        made = chat.request(form, system="Be brief.", tools=TOOLS, cache=True)
        assert "Be brief." in str(dict(made))
    assert recorded(chat) == [{"system": "Be brief.", "tools": TOOLS}]


def test_fork_has_the_frame_of_its_beginning(chat):
    chat.internals.keep_frame(system="first")
    fill(chat, 1)
    chat.internals.keep_frame(system="second")
    fork = chat.fork(2)
    assert fork.frame().system == "first"
    assert not fork.internals.keep_frame(system="first")
    assert chat.fork().frame().system == "second"


def test_redacted_frame_is_gone_from_every_fork(lab):
    chat = lab.store.create()
    chat.internals.keep_frame(system=SECRET, tools=TOOLS)
    fill(chat, 1)
    fork = chat.fork()
    done = chat.redact(1)
    assert set(done.copies) == {(chat.id, 1), (fork.id, 1)}
    assert done.changed
    for one in (chat, fork, chat.fork(1)):
        assert one.frame() == Frame()
        assert SECRET not in str(list(one.audit()))
        assert one.verify().ok
    assert not chat.redact(1).changed
    assert chat.internals.keep_frame(system="another", tools=TOOLS)


def test_wrong_frame_is_refused(chat):
    for wrong in ({"system": 7}, {"tools": "run"}, {"tools": {}}):
        with pytest.raises(InvalidOption):
            chat.internals.keep_frame(**wrong)
    with pytest.raises(InvalidMessage):
        chat.internals.keep_frame(tools=[{"n": float("nan")}])
    with pytest.raises(MessageNotFound):
        chat.frame(as_of=9)
    assert chat.head().seq == 0


class Prompt(str):
    """A text with a type of its own, as template engines make it."""

    __slots__ = ()


@pytest.mark.parametrize("system", [Prompt("Be brief."), [text(Prompt("Be brief."))]], ids=type)
def test_text_of_a_subclass_is_sent_and_recorded_as_text(chat, system):
    chat.append("user", "hi")
    tools = [{**TOOLS[0], "description": Prompt("runs")}]
    for _ in range(2):
        assert chat.request(system=system, tools=tools)["system"] == system
    assert chat.frame() == Frame(system, tuple(tools))
    assert len(chat.notes("frame")) == 1


def test_frame_with_a_value_beyond_json_is_refused(chat):
    chat.append("user", "hi")
    for value in (object(), 1j, {1}):
        with pytest.raises(InvalidMessage):
            chat.request(tools=[{**TOOLS[0], "description": value}])
    assert chat.head().seq == 1


def test_store_without_frames_records_none(leg, opened):
    with opened(*leg, record_frames=False) as lab:
        chat = lab.store.create()
        fill(chat, 1)
        assert not chat.internals.keep_frame(system=SECRET)
        manager(chat, limit=100_000).manage(chat, system=SECRET)
        assert not chat.fork().internals.keep_frame(system=SECRET)
        assert chat.request(system=SECRET)["system"] == SECRET
        assert recorded(chat) == []


LONE = "a file \ud800 here"


@pytest.mark.one_leg
@pytest.mark.parametrize("form", forms.known())
def test_prompt_and_tools_that_are_not_unicode_are_sent_as_unicode(chat, form):
    chat.append("user", "hi")
    tool = {"name": "ls", "description": LONE, "input_schema": {"type": "object"}}
    request = chat.request(form, system=LONE, tools=[tool])
    sent = json.dumps(dict(request), ensure_ascii=False)
    assert sent.encode().decode().count("a file \ufffd here") == 2
    assert chat.frame().system == LONE


@pytest.mark.one_leg
@pytest.mark.parametrize("form", forms.known())
def test_blank_prompt_is_not_sent(chat, form):
    chat.append("user", "hi")
    bare = dict(chat.request(form))
    for blank in (" \n", [{"type": "text", "text": ""}], [{"type": "text", "text": "\t"}]):
        assert dict(chat.request(form, system=blank)) == bare
    texts = [{"type": "text", "text": " "}, {"type": "text", "text": "Be brief."}]
    assert "Be brief." in json.dumps(dict(chat.request(form, system=texts)))


@pytest.mark.one_leg
@pytest.mark.parametrize(
    "usage",
    [
        {"cost": 10**400},
        {"cost": 1e308},
        {"input_tokens": 10**400, "output_tokens": 7},
        {"prompt_tokens": 5, "completion_tokens": 10**400},
    ],
)
def test_absurd_numbers_are_left_out_of_the_sums(chat, usage):
    for reported in (usage, usage, {"input_tokens": 10, "output_tokens": 5}):
        chat.append("assistant", "yes", usage=reported, model="claude-sonnet-4-5")
    (spent,) = spending(chat.usage())
    assert spent.calls == 3
    assert spent.input < 100
    assert spent.cost < 1
