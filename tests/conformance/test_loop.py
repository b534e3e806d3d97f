"""The agent's loop: whom a session waits for, which calls wait, and what answers them."""

import pytest

from roocontext import PendingCall, Plan
from support.dialogue import fill
from support.four_formats import FORMATS, asking, result, words

A, B = ("call_a", "read"), ("call_b", "run")


@pytest.fixture(params=FORMATS)
def form(request):
    """A format of the log."""
    return request.param


class Talk:
    """A session in one format."""

    def __init__(self, chat, form):
        self.chat, self.form = chat, form

    def says(self, role, said="text", **options):
        return self._add(words(self.form, role, said), options)

    def asks(self, *calls, **options):
        return self._add(asking(self.form, *calls), options)

    def gets(self, call, output="done", **options):
        return self._add(result(self.form, call, output), options)

    def _add(self, message, options):
        return self.chat.append(*message, format=self.form, **options).seq

    @property
    def state(self):
        """Whom the session waits for, and the calls that wait."""
        return self.chat.waits_for(), [call.place for call in self.chat.pending()]


@pytest.fixture
def talk(chat, form):
    return Talk(chat, form)


USER, MODEL = ("user", []), ("model", [])


@pytest.mark.every_leg
def test_a_loop_goes_from_the_user_to_the_model_to_the_tools_and_back(talk):
    assert talk.state == USER
    talk.says("user")
    assert talk.state == MODEL
    call = talk.asks(A, B)
    assert talk.state == ("tools", [(call, 0), (call, 1)])
    talk.gets(B)
    assert talk.state == ("tools", [(call, 0)])
    talk.gets(A)
    assert talk.state == MODEL
    talk.says("assistant")
    assert talk.state == USER


def test_a_pending_call_has_its_name_and_input(talk):
    seq = talk.asks(A, B)
    assert talk.chat.pending() == [
        PendingCall(seq, 0, "call_a", "read", {"x": 1}),
        PendingCall(seq, 1, "call_b", "run", {"x": 1}),
    ]


def test_the_users_words_close_the_calls_before_them(talk):
    talk.asks(A, B)
    talk.gets(A)
    talk.says("user", "never mind")
    assert talk.state == MODEL
    talk.gets(B)
    assert talk.state == MODEL


def test_results_with_words_beside_them_are_the_users_words(chat):
    chat.append(*asking("anthropic", A, B))
    _, blocks = result("anthropic", A, "done")
    chat.append("user", [*blocks, {"type": "text", "text": "stop"}])
    assert (chat.waits_for(), chat.pending()) == MODEL


def test_only_the_last_run_of_replies_waits(talk):
    talk.asks(A)
    talk.says("user")
    first, second = talk.asks(("c", "read")), talk.asks(("d", "read"))
    talk.gets(("d", "read"))
    assert talk.state == ("tools", [(first, 0)])
    talk.says("assistant", "I go on without it.")
    assert talk.state == USER
    talk.chat.rewind(second)
    assert talk.state == ("tools", [(first, 0), (second, 0)])


def test_a_rewound_result_does_not_answer_and_a_rewound_call_does_not_wait(talk):
    start = talk.says("user")
    call = talk.asks(A)
    talk.gets(A)
    talk.chat.rewind(call)
    assert talk.state == ("tools", [(call, 0)])
    talk.chat.undo()
    assert talk.state == MODEL
    talk.chat.rewind(start)
    assert talk.state == MODEL
    talk.chat.rewind(0)
    assert talk.state == USER


def test_instructions_in_a_foreign_format_are_nobodys_turn(chat):
    chat.append("system", {"role": "system", "content": "Be brief."}, format="openai")
    assert chat.waits_for() == "user"
    chat.append("user", "hello")
    seq = chat.append(*asking("anthropic", A)).seq
    chat.append("developer", {"role": "developer", "content": "Go on."}, format="openai")
    assert [call.place for call in chat.pending()] == [(seq, 0)]
    assert chat.waits_for() == "tools"


@pytest.mark.every_leg
def test_what_is_hidden_counts_and_what_hides_it_does_not(chat):
    fill(chat, 3)
    chat.append(*asking("anthropic", A))
    chat.append(*result("anthropic", A, "done"))
    chat.commit(Plan.condense(chat.view(), [1, 2, 3, 4, 5], "S", at_end=True))
    assert (chat.waits_for(), chat.pending()) == MODEL
    chat.append("assistant", "ok")
    chat.commit(Plan.truncate(chat.view(), [7], "M"))
    assert (chat.waits_for(), chat.pending()) == USER


def test_a_message_that_came_while_the_model_ran_is_answered(talk):
    asked = talk.says("user")
    talk.says("user", "and that?")
    talk.says("assistant", asked_at=asked)
    assert talk.state == MODEL
    talk.says("assistant", asked_at=3)
    assert talk.state == USER


def test_a_result_that_came_while_the_model_ran_is_answered(talk):
    talk.says("user")
    asked = talk.asks(A)
    talk.gets(A)
    talk.says("assistant", asked_at=asked)
    assert talk.state == MODEL


def test_a_message_that_was_rewound_while_the_model_ran_is_not(talk):
    asked = talk.says("user")
    talk.says("user", "and that?")
    talk.chat.rewind(asked)
    talk.says("assistant", asked_at=asked)
    assert talk.state == USER


def test_a_reply_in_the_middle_of_a_tool_of_the_provider_is_continued(chat):
    chat.append("user", "search")
    call = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    chat.append("assistant", [call])
    assert (chat.waits_for(), chat.pending()) == MODEL
    found = {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}
    chat.append("assistant", [call, found, {"type": "text", "text": "found"}])
    assert (chat.waits_for(), chat.pending()) == USER


def test_notes_behind_the_last_message_change_nothing(talk):
    seq = talk.asks(A)
    for number in range(20):
        talk.chat.note("remark", {"number": number})
    assert talk.state == ("tools", [(seq, 0)])
