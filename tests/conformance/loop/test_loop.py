"""The agent's loop: whom a session waits for, which calls wait, and what answers them."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from roocontext import NewMessage, PendingCall, Plan
from roocontext.errors import InvalidMessage, InvalidOption, InvalidPlan, NoSuchCall
from roocontext.log.draft import Sources, message_draft
from roocontext.log.forms import forms
from roocontext.store.writing import append
from support.dialogue import fill
from support.four_formats import FORMATS, asking, reply, result, words

pytestmark = pytest.mark.values_on_one_leg

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
def test_turn_goes_from_the_user_to_the_model_to_the_tools_and_back(talk):
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


def test_pending_call_has_its_name_and_input(talk):
    seq = talk.asks(A, B)
    assert talk.chat.pending() == [
        PendingCall(seq, 0, "call_a", "read", {"x": 1}),
        PendingCall(seq, 1, "call_b", "run", {"x": 1}),
    ]


def test_results_with_text_are_the_users_words(chat):
    chat.append(*asking("anthropic", A, B))
    _, blocks = result("anthropic", A, "done")
    chat.append("user", [*blocks, {"type": "text", "text": "stop"}])
    assert (chat.waits_for(), chat.pending()) == MODEL


def test_instructions_in_a_foreign_format_are_nobodys_turn(chat):
    chat.append("system", {"role": "system", "content": "Be brief."}, format="openai")
    assert chat.waits_for() == "user"
    chat.append("user", "hello")
    seq = chat.append(*asking("anthropic", A)).seq
    chat.append("developer", {"role": "developer", "content": "Go on."}, format="openai")
    assert [call.place for call in chat.pending()] == [(seq, 0)]
    assert chat.waits_for() == "tools"


def test_reply_in_the_middle_of_a_tool_of_the_provider_is_continued(chat):
    chat.append("user", "search")
    call = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    chat.append("assistant", [call])
    assert (chat.waits_for(), chat.pending()) == MODEL
    found = {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}
    chat.append("assistant", [call, found, {"type": "text", "text": "found"}])
    assert (chat.waits_for(), chat.pending()) == USER


@pytest.mark.values_on_one_leg
@pytest.mark.parametrize("tool_id", [["s"], {"s": 1}, 5], ids=str)
def test_tool_of_the_provider_whose_id_is_no_text_is_not_waited_for(chat, tool_id):
    chat.append("user", "search")
    call = {"type": "server_tool_use", "id": tool_id, "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": tool_id, "content": []}
    chat.append("assistant", [call, found])
    assert (chat.waits_for(), chat.pending()) == USER


@pytest.mark.parametrize(("reason", "turn"), [("pause_turn", "model"), ("end_turn", "user")])
def test_reply_that_the_provider_paused_is_continued(lab, reason, turn):
    chat = lab.store.create()
    chat.append("user", "search")
    reply = NewMessage("assistant", [{"type": "text", "text": "Searching."}], asked_at=1)
    kept = {"stop_reason": reason}
    append.append_message(
        lab.database.of(chat.id), message_draft(reply, Sources(1, lab.ids.salt, str), kept=kept)
    )
    assert chat.waits_for() == turn


# Answers


@pytest.mark.every_leg
def test_call_has_one_answer_however_often_it_is_answered(talk):
    talk.asks(A, B)
    first, second = talk.chat.pending()
    written = talk.chat.answer(second, "done")
    assert (written.seq, written.new) == (2, True)
    again = talk.chat.answer(second, "other", is_error=True)
    assert (again.seq, again.hash, again.new) == (2, written.hash, False)
    assert talk.chat.head_seq() == 2
    assert talk.chat.pending() == [first]
    talk.chat.answer((1, 0), {"found": 3})
    assert talk.state == MODEL
    assert [message.answers for message in talk.chat.view().messages] == [None, (1, 1), (1, 0)]
    assert talk.chat.verify().ok


def test_answer_has_the_form_of_a_result_in_the_format(talk):
    talk.asks(A, B)
    talk.chat.answer((1, 0), "done")
    expected = result(talk.form, A, "done")
    message = talk.chat.view().messages[-1]
    assert (message.role, message.content, message.format) == (*expected, talk.form)


def test_calls_without_ids_are_answered_in_any_order(chat):
    chat.append(*asking("gemini", ("", "read"), ("", "read")), format="gemini")
    chat.answer((1, 1), "second")
    assert [call.place for call in chat.pending()] == [(1, 0)]
    chat.answer((1, 0), "first")
    assert chat.waits_for() == "model"
    sent = chat.messages("gemini")[-1]["parts"]
    assert [part["functionResponse"]["response"]["output"] for part in sent] == ["first", "second"]


def test_failure_is_kept_in_every_format(talk):
    talk.asks(A)
    talk.chat.answer((1, 0), "no such file", is_error=True, extra={"took": 3})
    entry = list(talk.chat.audit())[-1]
    kept = talk.form in {"openai", "openai-responses"}
    own = {"roocontext": {"is_error": True}} if kept else {}
    assert entry.entry.extra == {"took": 3, **own}
    if not kept:
        assert (
            '"error": "no such file"' in json.dumps(entry.content) or entry.content[0]["is_error"]
        )


@pytest.mark.parametrize("output", ["text", "", None, {"a": [1]}, [1, 2], [], 3, True, "\udcff"])
def test_output_may_be_any_json(talk, output):
    talk.asks(A)
    talk.chat.answer((1, 0), output)
    assert talk.state == MODEL


PNG_URL = "data:image/png;base64,AAAA"
PNG_SOURCE = {"type": "base64", "media_type": "image/png", "data": "AAAA"}


@pytest.mark.parametrize(
    "output",
    [
        [{"type": "text", "text": "a plot AAAA"}],
        [{"type": "text", "text": "a plot"}, {"type": "image", "source": PNG_SOURCE}],
        [{"type": "text", "text": "a plot"}, {"type": "image_url", "image_url": {"url": PNG_URL}}],
        [
            {"type": "input_text", "text": "a plot"},
            {"type": "input_image", "image_url": PNG_URL, "detail": "auto"},
        ],
    ],
)
def test_parts_of_a_tools_output_reach_every_provider(talk, output):
    talk.asks(A)
    talk.chat.answer((1, 0), output)
    assert talk.state == MODEL
    for form in forms.known():
        sent = str(talk.chat.messages(form))
        assert "a plot" in sent
        assert "AAAA" in sent or repr(b"\0\0\0") in sent
        assert '"type"' not in sent  # no JSON of the parts


def test_output_beyond_json_is_refused(talk):
    talk.asks(A)
    with pytest.raises(InvalidMessage) as caught:
        talk.chat.answer((1, 0), {1, 2})
    assert caught.value.path == "output"
    assert talk.chat.head_seq() == 1


# Refusals


@pytest.mark.every_leg
def test_answer_to_no_live_call_is_refused(talk):
    talk.says("user")
    talk.asks(A)
    talk.gets(A)
    for place in ((1, 0), (2, 1), (3, 0), (4, 0)):
        for act in (talk.chat.begin, lambda call: talk.chat.answer(call, "done")):
            with pytest.raises(NoSuchCall) as caught:
                act(place)
            assert (caught.value.seq, caught.value.block) == place
    (call,) = [PendingCall(2, 0, "call_a", "read", {"x": 1})]
    talk.chat.rewind(1)
    for act in (talk.chat.begin, lambda call: talk.chat.answer(call, "done")):
        with pytest.raises(NoSuchCall, match="Entry 2 is not live"):
            act(call)


def test_call_of_another_session_is_refused(talk, store):
    talk.asks(A)
    (call,) = talk.chat.pending()
    other = Talk(store.create(), talk.form)
    other.asks(B)
    with pytest.raises(NoSuchCall, match="not the given call"):
        other.chat.answer(call, "done")


@pytest.mark.parametrize("call", ["call_a", None, (1,), (1, -1), (0, 0), (1, "0"), [1, 0]])
def test_answer_to_an_unnamed_call_is_refused(chat, call):
    for act in (chat.begin, lambda call: chat.answer(call, "done")):
        with pytest.raises(InvalidOption):
            act(call)


def test_call_that_a_plan_copied_never_waits(chat):
    fill(chat, 2)
    role, content = asking("anthropic", A)
    copy = NewMessage(role, content)
    plan = Plan.condense(chat.view(), [1, 2], "S", companions=[copy], at_end=True)
    chat.commit(plan)
    assert (chat.waits_for(), chat.pending()) == USER
    with pytest.raises(NoSuchCall):
        chat.answer((4, 0), "done")


# Begun


@pytest.mark.every_leg
def test_call_that_was_begun_says_so(talk):
    talk.asks(A, B)
    _, second = talk.chat.pending()
    note = talk.chat.begin(second)
    assert (note.seq, note.new, note.head_seq) == (2, True, 1)
    again = talk.chat.begin((1, 1))
    assert (again.seq, again.new) == (2, False)
    assert [call.begun for call in talk.chat.pending()] == [False, True]
    talk.chat.answer(second, "done")
    talk.chat.rewind(1)
    assert [call.begun for call in talk.chat.pending()] == [False, True]
    assert [call.begun for call in talk.chat.fork().pending()] == [False, True]


# Replies that a limit cut off


def test_last_call_of_a_reply_that_was_cut_off_says_so(talk):
    talk.says("user")
    talk.chat.record(reply(talk.form, asking(talk.form, A, B)[1], is_cut_off=True))
    assert [call.cut_off for call in talk.chat.pending()] == [False, True]
    first, _ = talk.chat.pending()
    talk.chat.answer(first, "done")
    (last,) = talk.chat.pending()
    assert last.cut_off
    talk.chat.answer(last, "It was cut off.", is_error=True)
    talk.asks(A)
    assert [call.cut_off for call in talk.chat.pending()] == [False]


# Calls of the Responses format that are no functions

SCREENSHOT = {"type": "computer_screenshot", "image_url": "data:image/png;base64,AAAA"}
TOOLS = [{"type": "function", "name": "f", "parameters": {}}]
SHELL = [{"stdout": "x", "stderr": "", "outcome": {"type": "exit", "exit_code": 1}}]


@pytest.mark.parametrize(
    ("kind", "output", "field", "stored"),
    [
        ("custom_tool_call", "done", "output", "done"),
        ("shell_call", SHELL, "output", SHELL),
        ("local_shell_call", {"a": 1}, "output", '{"a":1}'),
        ("apply_patch_call", "done", "status", "completed"),
        ("computer_call", SCREENSHOT, "output", SCREENSHOT),
        ("tool_search_call", TOOLS, "tools", TOOLS),
    ],
)
def test_each_kind_of_call_has_its_own_output(chat, kind, output, field, stored):
    chat.append("assistant", [{"type": kind, "call_id": "c"}], format="openai-responses")
    (call,) = chat.pending()
    assert chat.answer(call, output).new
    assert chat.waits_for() == "model"
    (item,) = chat.view().messages[-1].content
    assert item[field] == stored
    assert item["type"] == {"tool_search_call": "tool_search_output"}.get(kind, f"{kind}_output")
    chat.rewind(1)
    seq = chat.append("user", [item], format="openai-responses").seq
    assert (chat.answer(call, output).seq, chat.waits_for()) == (seq, "model")
    with pytest.raises(InvalidPlan, match="separate"):
        chat.commit(Plan.condense(chat.view(), [1], "S"))


def test_output_that_the_kind_has_no_place_for_is_a_functions(chat):
    chat.append("assistant", [{"type": "computer_call", "call_id": "c"}], format="openai-responses")
    chat.answer((1, 0), "done")
    expected = {"type": "function_call_output", "call_id": "c", "output": "done"}
    assert chat.view().messages[-1].content == [expected]
    assert chat.waits_for() == "model"


def test_concurrent_answers_write_one(lab):
    if lab.interface == "async":
        return  # its driver runs one call after the other
    chat = lab.store.create()
    chat.append(*asking("anthropic", A))
    with ThreadPoolExecutor(8) as threads:
        given = list(threads.map(lambda number: chat.answer((1, 0), str(number)), range(8)))
    assert ({receipt.seq for receipt in given}, sum(it.new for it in given)) == ({2}, 1)
