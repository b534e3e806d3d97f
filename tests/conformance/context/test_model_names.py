"""Names of models: real ones are short, and a longer one is refused wherever a name is given."""

import pytest

from roocontext import ContextManager, NewMessage, Plan
from roocontext.errors import HistoryCorrupt, InvalidIdentifier
from roocontext.log.encoding import MAX_MODEL
from roocontext.tokens import counter_for, limit_for
from roocontext.tokens.prices import prices
from support.dialogue import fill, state

LONGEST = "-" * MAX_MODEL
LONG = "-" * (MAX_MODEL + 1)


def test_long_name_is_refused_by_every_call_of_a_session(chat):
    fill(chat, 3)
    chat.append("assistant", "x", model=LONGEST)
    chat.append("user", "y")
    view, before = chat.view(), state(chat)
    for ask in (
        lambda: chat.append("assistant", "x", model=LONG),
        lambda: chat.append_many([NewMessage("assistant", "x", model=LONG)]),
        lambda: chat.commit(Plan.condense(view, [1, 2], NewMessage("user", "S", model=LONG))),
        lambda: chat.request(model=LONG),
        lambda: chat.messages(model=LONG),
        lambda: chat.repairs(model=LONG),
    ):
        with pytest.raises(InvalidIdentifier, match="201 characters: at most 200") as caught:
            ask()
        assert caught.value.size == MAX_MODEL + 1
        assert "1,000" not in str(caught.value)  # the rule for ids
    assert state(chat) == before
    assert chat.messages(model=LONGEST)


def test_stored_name_that_is_too_long_is_not_restored(store):
    chat = store.create()
    chat.append("assistant", "x", model="m")
    (entry,) = chat.stored()
    damaged = entry._replace(sealed=entry.sealed._replace(model=LONG))
    with pytest.raises(HistoryCorrupt):
        store.restore("elsewhere", [damaged])


def test_reply_with_such_a_name_is_recorded_without_it(chat):
    chat.append("user", "go")
    usage = {"input_tokens": 1, "output_tokens": 1}
    said = [{"type": "text", "text": "x"}]
    reply = {"type": "message", "role": "assistant", "content": said, "model": LONG, "id": "m1"}
    reply |= {"stop_reason": "end_turn", "stop_sequence": None, "usage": usage}
    seq = chat.record(reply).seq
    assert chat.message(seq).model is None


@pytest.mark.one_leg
@pytest.mark.parametrize("profile", ["default", "gemini", "multi_llm_chat"])
def test_tables_of_models_refuse_it(profile):
    for ask in (
        lambda: limit_for(LONG, profile=profile),
        lambda: counter_for(LONG),
        lambda: prices().of(LONG),
        lambda: ContextManager(model=LONG),
    ):
        with pytest.raises(InvalidIdentifier, match="at most 200"):
            ask()
    assert limit_for(LONGEST, profile=profile).context > 0
    assert counter_for(LONGEST).name
    assert prices().of(LONGEST) is None
