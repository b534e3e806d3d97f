"""The first prompt of a session, as lists show it: it is kept with the session, and is a function
of the log."""

import pytest

from roocontext import NewMessage, Plan
from roocontext.log.summary import LONGEST

RESULT = {"type": "tool_result", "tool_use_id": "t", "content": "an output"}
TEXT = {"type": "text", "text": "and the words"}


@pytest.fixture(scope="module")
def lab(leg, opened):
    """A store of this module's own, which lists all of its sessions."""
    with opened(*leg) as lab:
        yield lab


def prompt(lab, chat):
    """The prompt of a session, which every list has and the log agrees with."""
    (info,) = [one for one in lab.store.sessions(limit=5) if one.session_id == chat.id]
    (seen,) = [one.info for one in lab.store.overview(limit=5) if one.info.session_id == chat.id]
    assert info == seen == chat.info()
    checked = chat.verify()
    assert checked.ok, checked.problem
    assert chat.rebuild() == 0
    return info.first_prompt


@pytest.mark.every_leg
def test_first_prompt_is_the_first_message_of_a_person(lab):
    chat = lab.store.create(title="a title is no prompt")
    chat.note("mine", {"text": "a note"})
    assert prompt(lab, chat) is None
    chat.append("assistant", "I begin.")
    chat.append("user", [RESULT])
    chat.append("user", " \n ")
    assert prompt(lab, chat) is None
    chat.append("user", [RESULT, TEXT])
    assert prompt(lab, chat) is None
    chat.append("assistant", "I go on.")
    chat.commit(Plan.condense(chat.view(), [6], "."))
    assert prompt(lab, chat) is None
    chat.append_many([NewMessage("assistant", "Yes?"), NewMessage("user", [TEXT])])
    assert prompt(lab, chat) == "and the words"
    chat.rewind(to=0)
    chat.append("user", "a later one")
    assert prompt(lab, chat) == "and the words"


@pytest.mark.values_on_one_leg
@pytest.mark.parametrize(
    ("role", "content", "form", "found"),
    [
        ("user", "said", "anthropic", "said"),
        ("user", {"role": "user", "content": "said"}, "openai", "said"),
        ("system", {"role": "system", "content": "a rule"}, "openai", None),
        ("developer", {"role": "developer", "content": "a rule"}, "openai", None),
        ("tool", {"role": "tool", "tool_call_id": "t", "content": "1"}, "openai", None),
        ("function", {"role": "function", "name": "f", "content": "1"}, "openai", None),
        ("user", {"role": "user", "parts": [{"text": "said"}]}, "gemini", "said"),
        ("system", {"parts": [{"text": "a rule"}]}, "gemini", None),
        (
            "user",
            {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {}}}]},
            "gemini",
            None,
        ),
        (
            "user",
            [{"type": "message", "role": "user", "content": "said"}],
            "openai-responses",
            "said",
        ),
        (
            "user",
            [{"type": "function_call_output", "call_id": "c", "output": "1"}],
            "openai-responses",
            None,
        ),
    ],
)
def test_first_prompt_is_read_in_every_format(lab, role, content, form, found):
    chat = lab.store.create()
    chat.append(role, content, format=form)
    assert prompt(lab, chat) == found


@pytest.mark.every_leg
def test_agent_may_give_the_typed_part_of_a_message(lab):
    chat = lab.store.create()
    chat.append("user", "<rules>Be brief.</rules>", extra={"typed_text": ""})
    assert prompt(lab, chat) is None
    fork = chat.fork(1)
    chat.append("user", "<task>Fix\n it</task>", extra={"typed_text": "Fix\n it", "more": [1]})
    assert prompt(lab, chat) == "Fix it"
    batch = [NewMessage("user", "<rules/> Go on", extra={"typed_text": f"Go{'!' * 99}"})]
    fork.write_batch(batch)
    assert prompt(lab, fork) == f"Go{'!' * (LONGEST - 2)}"
    chat.redact(2)
    assert prompt(lab, chat) is None
    for extra in (["typed_text"], {"typed_text": 7}, {"a": {"typed_text": ""}}):
        chat = lab.store.create()
        chat.append("user", "as it is", extra=extra)
        assert prompt(lab, chat) == "as it is"


def test_first_prompt_is_short_and_on_one_line(lab):
    chat = lab.store.create()
    chat.append("user", f"\n\n  one\ttwo \n{'x' * 200}")
    assert prompt(lab, chat) == f"one two {'x' * 72}"
    assert len(prompt(lab, chat)) == LONGEST
    chat = lab.store.create()
    chat.append("user", "x" * (LONGEST - 1) + " y")
    assert prompt(lab, chat) == "x" * (LONGEST - 1)


def test_unstorable_characters_of_the_first_prompt_are_replaced(lab):
    chat = lab.store.create()
    chat.append("user", "a\0b\ud800c \x1b[31m")
    assert prompt(lab, chat) == "a\ufffdb\ufffdc \x1b[31m"


@pytest.mark.every_leg
def test_redacted_first_prompt_gives_way_to_the_next(lab):
    chat = lab.store.create()
    for text in ("first", "second", "third"):
        chat.append("user", text)
    fork = chat.fork(3)
    chat.redact(2)
    assert prompt(lab, chat) == prompt(lab, fork) == "first"
    chat.redact(1)
    assert prompt(lab, chat) == prompt(lab, fork) == "third"
    chat.redact(3)
    assert prompt(lab, chat) is None
    assert prompt(lab, fork) is None
    chat.append("user", "fourth")
    assert prompt(lab, chat) == "fourth"


def test_fork_has_the_first_prompt_of_its_copied_rows(lab):
    chat = lab.store.create()
    chat.append("assistant", "I begin.")
    chat.append("user", "first")
    assert prompt(lab, chat.fork(1)) is None
    assert prompt(lab, chat.fork(2)) == "first"
    fork = chat.fork(1)
    fork.append("user", "another")
    assert prompt(lab, fork) == "another"


def test_prompt_after_many_messages_is_rebuilt(lab):
    chat = lab.store.create()
    chat.append_many([NewMessage("assistant", "I go on.")] * 120)
    chat.append("user", "first")
    lab.sql(f"UPDATE sessions SET first_prompt = NULL WHERE session_id = '{chat.id}'")
    assert chat.rebuild() == 1
    assert prompt(lab, chat) == "first"
