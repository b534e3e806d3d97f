"""pydantic-ai's ConversationStore, compared with the framework's own store in memory.

A history processor of pydantic-ai gets the effective history from our view.
"""

import asyncio
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from pydantic_ai import BinaryImage, Conversation, DeferredToolRequests, ImageUrl
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    InMemoryConversationStore,
)
from pydantic_ai.exceptions import PydanticAIDeprecationWarning, UserError
from pydantic_ai.messages import (
    CompactionPart,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    RetryPromptPart,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.usage import RequestUsage, RunUsage

from roocontext import InvalidMessage, NewMessage, SessionPurged
from roocontext.adapters.pydantic_ai import session_id
from roocontext.log.plan import Action, Plan
from support.examples import examples
from support.pydantic_ai_driver import WHEN, PydanticAIDriver, said, texts_of

DRIVER = PydanticAIDriver


def test_messages_are_stored_as_messages_and_come_back_equal(driver):
    call = ToolCallPart("look", {"x": 1.0, "big": 2**70, "yes": True}, "c-1")
    answered = ToolReturnPart("look", {"seen": ["é", None, 1, 1.0]}, "c-1", timestamp=WHEN)
    picture = BinaryImage(data=b"\x89PNG\xff\xfe", media_type="image/png")
    prompt = UserPromptPart(["see", picture, ImageUrl("https://example.com/x.png")], timestamp=WHEN)
    messages = [
        ModelRequest(
            parts=[SystemPromptPart("be kind", timestamp=WHEN), prompt],
            timestamp=WHEN,
            instructions="short",
            metadata={"tenant": "t"},
        ),
        ModelResponse(
            parts=[ThinkingPart("hm", signature="s"), TextPart("I look"), call],
            usage=RequestUsage(input_tokens=100, cache_read_tokens=40, output_tokens=7),
            model_name="test-model",
            timestamp=WHEN,
            provider_details={"finish": [1, {"a": "b"}]},
        ),
        ModelRequest(parts=[answered], timestamp=WHEN),
        ModelResponse(parts=[TextPart("done")], timestamp=WHEN),
    ]
    talk = Conversation(
        messages=list(messages), conversation_id="t-1", usage=RunUsage(requests=2, input_tokens=100)
    )
    entries = driver.run(driver.adapter.save(talk, scope="team"))
    loaded = driver.run(driver.adapter.load("t-1"))
    assert (loaded.messages, loaded.usage) == (messages, RunUsage(requests=2, input_tokens=100))
    assert loaded.revision == talk.revision
    assert driver.run(driver.adapter.load_entries("t-1")) == entries
    chat = driver.chat("t-1")
    assert [message.role for message in chat.view().messages] == ["user", "assistant"] * 2
    (spent,) = chat.usage()
    assert (spent.model, spent.usage["input_tokens"]) == ("test-model", 60)
    assert chat.waits_for() == "user"
    sent = chat.messages("anthropic")
    assert [block["type"] for block in sent[1]["content"]] == ["text", "tool_use"]
    assert sent[2]["content"][0]["tool_use_id"] == sent[1]["content"][1]["id"]
    assert [hit.session_id for hit in driver.store.search("kind")] == [chat.id]
    assert chat.verify().ok


def test_save_appends_only_new_messages(driver):
    driver.save("t", "u1", "a1")
    driver.save("t", "u2", "a2")
    assert driver.texts("t") == ["u1", "a1", "u2", "a2"]
    assert driver.chat("t").stats().messages == 4
    loaded = driver.run(driver.adapter.load("t", limit=1))
    assert texts_of(loaded.messages) == ["a2"]
    loaded.messages.append(said("u3"))
    driver.run(driver.adapter.save(loaded))
    assert driver.texts("t") == ["u1", "a1", "u2", "a2", "u3"]
    entries = driver.run(driver.adapter.load_entries("t"))
    latest = driver.run(driver.adapter.load_entries("t", limit=2))
    assert [entry.parent_id for entry in latest] == [entry.id for entry in entries[2:4]]
    assert driver.run(driver.adapter.read_entry(entries[-1].id)) == entries[-1]


def test_branch_is_a_rewind(driver):
    driver.save("t", "u1", "a1", "u2", "a2")
    talk = driver.run(driver.adapter.load("t"))
    left = driver.run(driver.adapter.load_entries("t"))[-1].id
    branched = driver.run(driver.adapter.branch("t", at=2, expected_revision=talk.revision))
    driver.save("t", "u3")
    assert driver.texts("t") == ["u1", "a1", "u3"]
    view = driver.chat("t").view().messages
    assert [message.content["parts"][0]["content"] for message in view] == ["u1", "a1", "u3"]
    record = driver.run(driver.adapter.read_record("t"))
    assert record.branches == [left]
    with pytest.raises(ConversationConflict):
        driver.run(driver.adapter.branch("t", at=1, expected_revision=branched.revision))
    driver.run(driver.adapter.branch("t", from_entry=left, expected_revision=record.revision))
    assert driver.texts("t") == ["u1", "a1", "u2", "a2"]
    assert len(driver.chat("t").view().messages) == 4


def test_fork_is_a_fork(driver):
    driver.save("t", "u1", "a1", "u2", "a2", scope="team")
    driver.run(driver.adapter.fork("t", at=2, new_conversation_id="f"))
    driver.save("f", "u3")
    assert (driver.texts("f"), driver.texts("t")) == (["u1", "a1", "u3"], ["u1", "a1", "u2", "a2"])
    shared = [driver.run(driver.adapter.load_entries(name))[:2] for name in "tf"]
    assert shared[0] == shared[1]
    assert driver.run(driver.adapter.read_record("f")).forked_from == "t"
    assert driver.chat("f").newest_note("origin") is not None
    # The second life of an id is a fork too, and so is a fork of a fork.
    driver.run(driver.adapter.delete("f"))
    assert driver.texts("f") is None
    driver.run(driver.adapter.fork("t", new_conversation_id="f"))
    driver.run(driver.adapter.fork("f", at=3, new_conversation_id="g"))
    driver.save("g", "u9")
    assert driver.texts("f") == ["u1", "a1", "u2", "a2"]
    assert driver.texts("g") == ["u1", "a1", "u2", "u9"]
    driver.run(driver.adapter.delete("t"))
    driver.store.purge(session_id("t"))
    assert driver.texts("g") == ["u1", "a1", "u2", "u9"]
    with pytest.raises(ConversationConflict):
        driver.run(driver.adapter.fork("g", new_conversation_id="f"))
    # The forks still have the entries that they have inherited, and new forks can be made of them.
    for entry in shared[0]:
        assert driver.run(driver.adapter.read_entry(entry.id)) == entry
    driver.run(driver.adapter.fork("g", at=1, new_conversation_id="h"))
    for name in "fg":
        driver.store.purge(session_id(name))
    assert driver.texts("h") == ["u1"]
    driver.store.purge(session_id("h"))
    with pytest.raises(LookupError):
        driver.run(driver.adapter.read_entry(shared[0][0].id))


def test_purge_does_not_hurt_a_fork(driver):
    driver.save("t", "u1", "a1")
    for name in "fe":
        driver.run(driver.adapter.fork("t", new_conversation_id=name))
    driver.save("f", "u2")
    revision = driver.run(driver.adapter.read_record("f")).revision
    driver.run(driver.adapter.branch("f", at=2, expected_revision=revision))
    driver.store.purge(session_id("t"))
    assert driver.texts("f") == driver.texts("e") == ["u1", "a1"]
    driver.save("e", "u3")
    assert driver.texts("e") == ["u1", "a1", "u3"]
    assert driver.chat("e").verify().ok


def test_purged_conversation_is_no_conflict_that_loading_again_solves(quick):
    quick.save("t", "u1")
    quick.store.purge(session_id("t"))
    assert quick.texts("t") is None
    with pytest.raises(SessionPurged):
        quick.save("t", "u1")


def test_fork_without_messages_or_record_is_continued(driver):
    driver.save("t", "u1", "a1", "u2")
    driver.run(driver.adapter.fork("t", at=0, new_conversation_id="f"))
    assert driver.texts("f") == []
    # A process that was killed in the middle of a fork has left this.
    driver.chat("t").fork(session_id=session_id("g"))
    assert driver.texts("g") is None
    listed = driver.run(driver.adapter.list_conversations())
    assert [one.conversation_id for one in listed] == ["f", "t"]
    driver.run(driver.adapter.fork("t", at=2, new_conversation_id="g"))
    assert driver.texts("g") == ["u1", "a1"]
    assert len(driver.chat("g").view().messages) == 2


def test_one_of_two_writers_wins(driver):
    driver.save("t", "u1")
    with closing(PydanticAIDriver(driver.url)) as other:
        first, second = driver.run(driver.adapter.load("t")), other.run(other.adapter.load("t"))
        first.messages.append(said("a1"))
        second.messages.append(said("a2"))
        driver.run(driver.adapter.save(first))
        for late in (second, Conversation(conversation_id="t", messages=[said("u")])):
            with pytest.raises(ConversationConflict):
                other.run(other.adapter.save(late))
    assert driver.texts("t") == ["u1", "a1"]

    async def race() -> list[Any]:
        talks = [await driver.adapter.load("t") for _ in range(6)]
        for number, talk in enumerate(talks):
            talk.messages.append(said(f"u{number}"))
        return await asyncio.gather(*map(driver.adapter.save, talks), return_exceptions=True)

    outcomes = driver.run(race())
    lost = [one for one in outcomes if isinstance(one, ConversationConflict)]
    assert (len(lost), len(driver.texts("t"))) == (5, 3)
    assert driver.chat("t").verify().ok


def test_deleted_conversation_is_hidden_and_a_stale_copy_is_refused(driver):
    talk = driver.save("t", "u1", "a1", scope="team")
    driver.run(driver.adapter.delete("t", scope="other"))
    assert driver.texts("t") == ["u1", "a1"]
    driver.run(driver.adapter.delete("t"))
    driver.run(driver.adapter.delete("t"))
    assert driver.texts("t") is None
    assert driver.run(driver.adapter.list_conversations()) == []
    assert driver.chat("t").view().messages == ()
    assert driver.chat("t").stats().messages == 2
    with pytest.raises(ConversationConflict):
        driver.run(driver.adapter.save(talk))
    driver.save("t", "u2")
    assert driver.texts("t") == ["u2"]
    with pytest.raises(ConversationConflict):
        driver.run(driver.adapter.save(talk))
    record = driver.run(driver.adapter.read_record("t"))
    with pytest.raises(ConversationConflict):
        driver.run(driver.adapter.delete_record("t", expected_revision=talk.revision))
    driver.run(driver.adapter.delete_record("t", expected_revision=record.revision))
    assert driver.texts("t") is None


def test_list_of_a_scope_is_newest_first(driver):
    for name, scope in (("a", "x"), ("b", None), ("c", "x"), ("d", "y")):
        driver.save(name, "u1", scope=scope)
    driver.save("a", "u2")
    driver.store.create("own", metadata={"framework": "pydantic-ai"})

    def names(**options: Any) -> list[str]:
        listed = driver.run(driver.adapter.list_conversations(**options))
        return [one.conversation_id for one in listed]

    assert (names(), names(scope="x")) == (["a", "d", "c", "b"], ["a", "c"])
    assert names(limit=2) == ["a", "d"]
    assert (names(limit=0), names(scope="nobody")) == ([], [])
    assert driver.run(driver.adapter.load("a", scope="y")) is None
    with pytest.raises(UserError):
        names(limit=-1)


def test_records_and_entries_of_another_store_can_be_copied(driver):
    one = ConversationEntry(id="first#entry", parent_id=None, message=said("u1"))
    two = ConversationEntry(id="second|é\0", parent_id="first#entry", message=said("a1"))
    record = ConversationRecord(
        conversation_id="other/é", head_id=two.id, scope="x", updated_at=WHEN
    )
    driver.run(driver.adapter.write_record(record, new_entries=[one, two], expected_revision=None))
    assert driver.texts("other/é") == ["u1", "a1"]
    assert replace(driver.run(driver.adapter.read_record("other/é")), head_id=two.id) == record
    lost = ConversationRecord(conversation_id="lost", head_id="nowhere")
    with pytest.raises(ConversationConflict):
        driver.run(driver.adapter.write_record(lost, expected_revision=None))
    with pytest.raises(LookupError):
        driver.run(driver.adapter.read_entry("nowhere"))
    with pytest.raises(LookupError):
        driver.run(driver.adapter.read_entry(f"{session_id('other/é')}#nowhere"))


def test_random_operations_do_what_they_do_in_memory(quick):
    asked = iter(range(1_000_000))
    step = st.tuples(st.integers(0, 7), st.integers(0, 2), st.integers(0, 9))

    @settings(max_examples=examples(12))
    @given(st.lists(step, min_size=4, max_size=16))
    def check(steps: list[tuple[int, int, int]]) -> None:
        run, number = quick.run, next(asked)
        names = [f"{number}-{one}" for one in "abc"]
        memory = InMemoryConversationStore()
        for turn, (what, which, where) in enumerate(steps):
            results = []
            for store in (memory, quick.adapter):
                name = names[which]
                try:
                    results.append(run(act(store, name, names, turn, what, where)))
                except UserError as error:
                    results.append(type(error).__name__)
            assert results[0] == results[1]
            for name in names:
                both = [run(store.load(name)) for store in (memory, quick.adapter)]
                said = [None if one is None else texts_of(one.messages) for one in both]
                assert said[0] == said[1]

    async def act(store: Any, name: str, names: list[str], turn: int, what: int, where: int) -> Any:
        talk = await store.load(name)
        if what <= 3:
            talk = talk or Conversation(conversation_id=name)
            if what == 3:
                talk = replace(talk, messages=talk.messages[: where % 4], new_message_index=None)
            talk.messages += [said(f"u{turn}"), said(f"a{turn}")]
            return len(await store.save(talk))
        record = await store.read_record(name)
        tips = [] if record is None else record.branches
        if what == 4:
            revision = None if talk is None else talk.revision
            return texts_of(
                (await store.branch(name, at=where, expected_revision=revision)).messages
            )
        if what == 5 and tips:
            tip = tips[where % len(tips)]
            back = await store.branch(name, from_entry=tip, expected_revision=talk.revision)
            return texts_of(back.messages)
        if what == 6:
            forked = await store.fork(name, at=where % 5, new_conversation_id=names[where % 3])
            return texts_of(forked.messages)
        if what == 7:
            return await store.delete(name)
        return len(tips)

    check()


def test_redacted_message_keeps_its_place(driver):
    driver.save("t", "u1", "a secret", "u2")
    entries = driver.run(driver.adapter.load_entries("t"))
    driver.chat("t").redact(driver.chat("t").message(entries[1].id).seq)
    assert driver.texts("t") == ["u1", "[redacted]", "u2"]
    driver.save("t", "a3")
    assert driver.texts("t") == ["u1", "[redacted]", "u2", "a3"]


def test_part_of_an_unknown_newer_kind_is_kept_and_the_framework_refuses_to_load_it(quick):
    quick.save("t", "u1")
    record = quick.run(quick.adapter.read_record("t"))
    raw = {"kind": "response", "parts": [{"part_kind": "of-the-future", "content": {"x": [1.0]}}]}
    name = f"{session_id('t')}#new"
    ids = {"message_id": name, "client_id": f"{name}|{record.head_id}"}
    quick.chat("t").append("assistant", raw, format="pydantic-ai", **ids)
    assert quick.chat("t").view().messages[-1].content == raw
    with pytest.raises(ValidationError, match="of-the-future"):
        quick.run(quick.adapter.read_entry(name))
    assert quick.texts("t") == ["u1"]


def test_old_retry_part_comes_back_as_the_framework_reads_it(quick):
    with pytest.warns(PydanticAIDeprecationWarning, match="RetryPromptPart"):
        retry = RetryPromptPart("again", tool_name="look", tool_call_id="c-1", timestamp=WHEN)
    message = ModelRequest(parts=[retry], timestamp=WHEN)
    quick.run(quick.adapter.save(Conversation(conversation_id="t", messages=[message])))
    (loaded,) = quick.run(quick.adapter.load("t")).messages
    dumped = ModelMessagesTypeAdapter.dump_python([message], mode="json")
    assert [loaded] == ModelMessagesTypeAdapter.validate_python(dumped)


def test_unstorable_message_is_refused_and_writes_nothing(quick):
    quick.save("t", "u1")
    for bad in (float("nan"), float("inf")):
        talk = quick.run(quick.adapter.load("t"))
        part = ToolReturnPart("look", {"secret": bad}, "c-1", timestamp=WHEN)
        talk.messages.append(ModelRequest(parts=[part], timestamp=WHEN))
        with pytest.raises(InvalidMessage) as refused:
            quick.run(quick.adapter.save(talk))
        assert "secret" not in str(refused.value)
    assert quick.texts("t") == ["u1"]
    quick.save("t", "a \0 b")
    assert quick.texts("t") == ["u1", "a \0 b"]


def test_paused_conversation_keeps_its_pending_calls(driver):
    call = ToolCallPart("deploy", {"to": "production"}, "c-1")
    waiting = DeferredToolRequests(approvals=[call], metadata={"c-1": {"risk": [1, None]}})
    asked = ModelResponse(parts=[call], timestamp=WHEN)
    talk = Conversation(
        messages=[said("u1"), asked], conversation_id="t", deferred_tool_requests=waiting
    )
    driver.run(driver.adapter.save(talk))
    assert driver.run(driver.adapter.load("t")).deferred_tool_requests == waiting
    assert [one.name for one in driver.chat("t").pending()] == ["deploy"]


def condense(chat: Any, first: int, last: int) -> None:
    """Hide these messages with a summary, as a manager would."""
    view = chat.view()
    seqs = [message.seq for message in view.messages]
    hides = ((seqs[first], seqs[last]),)
    rows = (NewMessage("user", "What was said before."),)
    plan = {"head_seq": view.head_seq, "action": Action.CONDENSE, "hides": hides, "rows": rows}
    chat.commit(Plan(**plan, compat=True))


class Context:
    """As much of a RunContext as a history processor sees."""

    def __init__(self, conversation_id: str | None) -> None:
        self.conversation_id = conversation_id


def test_processor_gives_the_view_and_the_new_messages(driver):
    driver.save("t", "u1", "a1", "u2", "a2", "u3", "a3")
    messages = [*driver.run(driver.adapter.load("t")).messages, said("u4")]

    def effective(messages: Any, name: str | None = "t") -> Any:
        return driver.run(driver.adapter.effective_history(Context(name), list(messages)))

    assert effective(messages) == messages
    condense(driver.chat("t"), 0, 3)
    shown = effective(messages)
    assert texts_of(shown) == ["What was said before.", "u3", "a3", "u4"]
    assert isinstance(shown[0].parts[0], CompactionPart)
    # The next request of the same run begins with what the processor has returned.
    assert effective([*shown, said("a4"), said("u5")]) == [*shown, said("a4"), said("u5")]
    assert driver.texts("t") == ["u1", "a1", "u2", "a2", "u3", "a3"]
    assert texts_of(driver.run(driver.adapter.load("t", limit=3)).messages) == ["a2", "u3", "a3"]
    condense(driver.chat("t"), 1, 2)  # now the newest stored message is hidden
    again = effective(messages)
    assert texts_of(again) == ["What was said before."] * 2 + ["u4"]
    assert effective([*again, said("a4")]) == [*again, said("a4")]
    for name in (None, "unknown"):
        assert effective(messages, name) == messages
    assert effective([said("u9")]) == [said("u9")]  # it was given a history of its own


def test_system_prompt_survives_a_summary(quick):
    first = ModelRequest(
        parts=[SystemPromptPart("be kind", timestamp=WHEN), UserPromptPart("u1", timestamp=WHEN)],
        timestamp=WHEN,
    )
    talk = Conversation(conversation_id="t", messages=[first, said("a1"), said("u2"), said("a2")])
    quick.run(quick.adapter.save(talk))
    condense(quick.chat("t"), 0, 1)
    messages = [*quick.run(quick.adapter.load("t")).messages, said("u3")]
    shown = quick.run(quick.adapter.effective_history(Context("t"), messages))
    assert texts_of(shown) == ["be kind", "What was said before.", "u2", "a2", "u3"]
    assert quick.run(quick.adapter.effective_history(Context("t"), [*shown, said("a3")])) == [
        *shown,
        said("a3"),
    ]


def test_rows_of_other_formats_are_shown_as_texts(quick):
    quick.save("t", "u1", "a1")
    chat = quick.chat("t")
    chat.append("user", "by hand", ts=(1 << 63) - 1)  # a time that no calendar has
    chat.append("assistant", [{"type": "text", "text": "an answer"}])
    chat.append("assistant", [{"type": "thinking", "thinking": "hm", "signature": "s"}])
    messages = [*quick.run(quick.adapter.load("t")).messages, said("u2")]
    shown = quick.run(quick.adapter.effective_history(Context("t"), messages))
    assert texts_of(shown) == ["u1", "a1", "by hand", "an answer", "u2"]
    quick.save("t", "u2")
    assert quick.texts("t") == ["u1", "a1", "u2"]
