"""What LangGraph's checkpoints become in a session, and what comes back."""

from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.serde.base import CipherProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer

from roocontext import InvalidOption, SessionExists
from roocontext.adapters.langgraph import RooContextSaver


@pytest.fixture(scope="module", params=["file", "postgres"])
def store(request, opened):
    """A store that the tests of this file share; the conformance suite has the asynchronous one."""
    with opened(request.param, "sync") as lab:
        yield lab.store


@pytest.fixture
def saver(store):
    """A checkpointer."""
    return RooContextSaver(store)


def at(thread: str, checkpoint_id: str | None = None, namespace: str = "") -> Any:
    named = {"thread_id": thread, "checkpoint_ns": namespace}
    return {"configurable": named | ({"checkpoint_id": checkpoint_id} if checkpoint_id else {})}


class Thread:
    """Puts checkpoints as a graph does."""

    def __init__(self, saver: RooContextSaver, name: str) -> None:
        self.saver, self.name, self.versions = saver, name, {}
        self.config = at(name)

    def put(self, parent: Any = None, **values: Any) -> Any:
        """Put a checkpoint with these values, behind the last one or behind a parent."""
        checkpoint = empty_checkpoint()
        for channel in values:
            self.versions[channel] = self.saver.get_next_version(self.versions.get(channel), None)
        checkpoint["channel_values"] = values
        checkpoint["channel_versions"] = dict(self.versions)
        self.config = self.saver.put(parent or self.config, checkpoint, {"step": 1}, self.versions)
        return self.config

    def values(self, config: Any = None) -> Any:
        """The values at a checkpoint, or at the newest."""
        return (
            RooContextSaver(self.saver._store)
            .get_tuple(config or at(self.name))
            .checkpoint["channel_values"]
        )

    @property
    def session(self) -> Any:
        return self.saver._store.session(f"langgraph:{self.name}")

    def shown(self) -> list[str]:
        return [message.content["data"]["content"] for message in self.session.view().messages]

    def written(self) -> list[str]:
        return [one.content["data"]["content"] for one in self.session.audit() if one.role]


@pytest.fixture
def thread(saver):
    """A thread that no other test uses."""
    return Thread(saver, saver._store.create().id)


def said(*texts: str) -> list[BaseMessage]:
    kinds = (HumanMessage, AIMessage)
    return [kinds[index % 2](text, id=text) for index, text in enumerate(texts)]


def test_each_message_is_written_once(thread):
    for count in range(1, 5):
        thread.put(messages=said(*"abcd"[:count]))
    assert thread.shown() == thread.written() == [*"abcd"]
    assert thread.values()["messages"] == said(*"abcd")
    assert thread.session.verify().ok


def test_a_fork_is_a_rewind_and_each_branch_comes_back(thread):
    configs = [thread.put(messages=said(*"abcd"[:count])) for count in range(1, 5)]
    fork = thread.put(configs[1], messages=[*said("a", "b"), HumanMessage("x", id="x")])
    assert thread.shown() == ["a", "b", "x"]
    assert thread.written() == ["a", "b", "c", "d", "x"]
    assert thread.values(configs[3])["messages"] == said(*"abcd")
    assert [one.content for one in thread.values(fork)["messages"]] == ["a", "b", "x"]
    back = thread.put(configs[3], messages=said(*"abcde"))
    assert thread.shown() == [*"abcde"]
    assert thread.written() == ["a", "b", "c", "d", "x", "c", "d", "e"] or thread.written() == [
        *("a", "b", "c", "d", "x", "e")
    ]
    assert thread.saver.get_tuple(back).parent_config == at(
        thread.name, configs[3]["configurable"]["checkpoint_id"]
    )


def test_a_summary_of_the_graph_hides_what_it_stands_for(thread):
    before = thread.put(messages=said(*"abcdef"))
    summary = SystemMessage("what was said", id="s")
    thread.put(messages=[summary, *said(*"abcdef")[4:], HumanMessage("g", id="g")])
    assert thread.shown() == ["what was said", "e", "f", "g"]
    assert thread.written() == ["a", "b", "c", "d", "e", "f", "what was said", "g"]
    assert [m.text for m in thread.values()["messages"]] == ["what was said", "e", "f", "g"]
    assert thread.values(before)["messages"] == said(*"abcdef")
    again = SystemMessage("shorter", id="t")
    thread.put(messages=[again, HumanMessage("g", id="g")])
    assert thread.shown() == ["shorter", "g"]
    thread.put(messages=[again, HumanMessage("g", id="g"), AIMessage("h", id="h")])
    assert thread.shown() == ["shorter", "g", "h"]
    assert thread.session.verify().ok


def test_what_a_graph_removes_is_hidden_behind_a_marker(thread):
    thread.put(messages=[SystemMessage("be brief", id="0"), *said(*"abcdef")])
    thread.put(messages=[SystemMessage("be brief", id="0"), *said(*"abcdef")[3:]])
    assert thread.shown()[0] == "be brief"
    assert thread.shown()[1].startswith("[Earlier messages")
    assert thread.shown()[2:] == ["d", "e", "f"]
    assert [m.text for m in thread.values()["messages"]] == ["be brief", "d", "e", "f"]
    more = [*said(*"abcdef")[4:], HumanMessage("g", id="g")]
    thread.put(messages=[SystemMessage("be brief", id="0"), *more])
    assert thread.shown()[2:] == ["e", "f", "g"]
    assert thread.written().count("e") == 1


def test_a_pinned_message_is_rewound_where_it_may_not_be_hidden(thread):
    thread.put(messages=said(*"abcd"))
    thread.session.pin(thread.session.view().messages[1].seq)
    thread.put(messages=said(*"abcd")[2:])
    assert thread.shown() == ["c", "d"]
    assert thread.values()["messages"] == said(*"abcd")[2:]


def test_a_message_that_is_changed_by_its_id_is_rewound(thread):
    thread.put(messages=said(*"abc"))
    changed = [*said("a"), AIMessage("other", id="b"), *said(*"abc")[2:]]
    thread.put(messages=changed)
    assert thread.shown() == ["a", "other", "c"]
    assert thread.values()["messages"] == changed
    changed[0].content = "in place"
    thread.put(messages=changed)
    assert thread.shown() == ["in place", "other", "c"]
    thread.put(messages=[])
    assert thread.shown() == []
    assert thread.values()["messages"] == []


def test_a_change_of_type_alone_is_a_change(thread):
    for value in (1, True, 1.0):
        thread.put(messages=[HumanMessage("a", id="a", additional_kwargs={"n": value})])
        (message,) = thread.values()["messages"]
        assert type(message.additional_kwargs["n"]) is type(value)


def test_what_others_write_to_the_session_is_taken_back(thread):
    thread.put(messages=said("a", "b"))
    thread.session.append("user", "by hand")
    thread.put(messages=said(*"abc"))
    assert thread.shown() == [*"abc"]
    assert thread.values()["messages"] == said(*"abc")


def test_several_channels_of_messages_share_a_session(thread):
    thread.put(messages=said("a"), notes=said("x"))
    thread.put(messages=said("a", "b"), notes=said("x", "y"), one=said("z")[0])
    assert thread.shown() == ["a", "x", "b", "y"]
    assert thread.values() == {
        "messages": said("a", "b"),
        "notes": said("x", "y"),
        "one": said("z")[0],
    }
    thread.put(messages=said("a", "b"), notes=said("n"))
    assert sorted(thread.shown()) == ["a", "b", "n"]
    assert thread.values() == {"messages": said("a", "b"), "notes": said("n")}


class Own(HumanMessage):
    """A message of a class that only this application has."""


ODD = [
    HumanMessage([{"type": "text", "text": "x"}, {"type": "image", "url": "https://x"}], id="1"),
    AIMessage("", id="2", tool_calls=[{"name": "f", "args": {"big": 2**80}, "id": "c"}]),
    ToolMessage("x", id="3", tool_call_id="c", artifact={"a": [1, 2.5, None]}, status="error"),
    HumanMessage("\ud800 \0", id="4", unknown={"of": "the future"}),
    AIMessage("x", id="5", additional_kwargs={"bytes": b"\0\xff"}),
    HumanMessage("no id"),
]


@pytest.mark.parametrize("message", ODD, ids=range(len(ODD)))
def test_messages_come_back_equal(thread, message):
    thread.put(messages=[message])
    (found,) = thread.values()["messages"]
    assert found == message
    assert type(found) is type(message)
    assert found.__dict__ == message.__dict__
    thread.put(messages=[found, HumanMessage("next", id="n")])
    assert len(thread.written()) == 2


def test_a_class_of_the_applications_own_is_stored_as_the_serializer_gives_it(thread):
    thread.put(messages=[Own("x", id="1", additional_kwargs={"when": {1, 2}})])
    (found,) = thread.values()["messages"]
    assert thread.shown() == ["x"]
    assert found.additional_kwargs == {"when": {1, 2}}


def test_values_of_any_kind_come_back_as_the_serializer_gives_them(thread):
    values = {"set": {1, 2}, "bytes": b"\0", "none": None, "text": "\0", "big": 2**62}
    first = thread.put(**values)
    assert thread.values() == values
    thread.put(first, **values)
    assert thread.values() == values


class Reversing(CipherProtocol):
    """No secret, but no plain text either."""

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        return "reversed", plaintext[::-1]

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        assert ciphername == "reversed"
        return ciphertext[::-1]


def test_what_is_encrypted_is_not_laid_open(store, thread):
    thread.saver = RooContextSaver(store, serde=EncryptedSerializer(Reversing()))
    thread.put(messages=said("secret"), other="secret")
    thread.saver.put_writes(thread.config, [("messages", said("secret"))], "task")
    assert thread.saver.get_tuple(thread.config).checkpoint["channel_values"] == {
        "messages": said("secret"),
        "other": "secret",
    }
    assert "secret" not in "".join(str(entry) for entry in thread.session.audit())


def test_writes_with_an_index_count_once_and_special_ones_are_replaced(thread):
    config = thread.put(a=1)
    put, begun = thread.saver.put_writes, thread.session.head().seq
    put(config, [("a", 1), ("b", 2)], "t2", "~2")
    put(config, [("a", 9), ("c", 3)], "t2", "~2")
    put(config, [("a", 1), ("b", 2)], "t2", "~2")
    put(config, [("x", 0)], "t1", "~9")
    for error in ("first", "second", "first"):
        put(config, [("__error__", error)], "t2", "~2")
    found = thread.saver.get_tuple(config).pending_writes
    assert found == [("t2", "__error__", "first"), ("t2", "a", 1), ("t2", "b", 2), ("t1", "x", 0)]
    assert thread.session.head().seq - begun == 6  # the repeated call wrote nothing


def test_a_call_that_is_repeated_writes_nothing(thread):
    config = thread.put(messages=said("a"))
    checkpoint = empty_checkpoint() | {"channel_values": {"messages": said("a", "b")}}
    checkpoint["channel_versions"] = {"messages": "2"}
    for _ in range(2):
        thread.saver.put(config, checkpoint, {}, {"messages": "2"})
        RooContextSaver(thread.saver._store).put(config, checkpoint, {}, {"messages": "2"})
    assert thread.written() == ["a", "b"]
    assert len([*thread.saver.list(at(thread.name))]) == 2
    last = thread.session.head().seq
    changed = checkpoint | {"channel_values": {"messages": said("a", "x")}}
    for values, shown in ((changed, ["a", "x"]), (checkpoint, ["a", "b"]), (changed, ["a", "x"])):
        thread.saver.put(config, values, {}, {"messages": "2"})
        assert thread.shown() == shown
        assert len([*thread.saver.list(at(thread.name))]) == 2
    assert thread.session.head().seq > last


@pytest.mark.parametrize("name", ["", "a/b", "~a", "x" * 5_000, "\ud800", "\0", "тема ✓", " "])
def test_a_thread_id_is_any_string(saver, name):
    own = saver._store.create().id
    thread = f"{name}{own}" if name else ""
    namespaces = sorted({"", name, "child:1|grandchild:2"})
    for number, namespace in enumerate(namespaces):
        checkpoint = empty_checkpoint() | {"channel_values": {"n": number}}
        config = saver.put(at(thread, namespace=namespace), checkpoint, {"own": own}, {})
        found = saver.get_tuple(config)
        assert found.config == config == at(thread, checkpoint["id"], namespace)
        assert found.checkpoint["channel_values"] == {"n": number}
    for config in ({"configurable": {"thread_id": thread}}, None):
        listed = [one.config["configurable"] for one in saver.list(config, filter={"own": own})]
        assert sorted(one["checkpoint_ns"] for one in listed) == namespaces
        assert {one["thread_id"] for one in listed} == {thread}
    saver.delete_thread(thread)
    assert [*saver.list({"configurable": {"thread_id": thread}})] == []


def test_checkpoint_ids_of_any_kind(thread):
    names = ["a", "b/c", "~", "x" * 2_000, "é", "\ud800"]
    for number, name in enumerate(names):
        checkpoint = empty_checkpoint() | {"id": name, "channel_values": {"n": number}}
        thread.saver.put(thread.config, checkpoint, {}, {})
        thread.saver.put_writes(at(thread.name, name), [("w", number)], "task")
    for number, name in enumerate(names):
        found = thread.saver.get_tuple(at(thread.name, name))
        assert found.checkpoint["channel_values"] == {"n": number}
        assert found.pending_writes == [("task", "w", number)]
    listed = [one.checkpoint["id"] for one in thread.saver.list(at(thread.name))]
    assert sorted(listed) == sorted(names)


def test_the_newest_is_that_with_the_greatest_id(thread):
    for name in ("3", "1", "2"):
        checkpoint = empty_checkpoint() | {"id": name, "channel_values": {}}
        thread.saver.put(at(thread.name), checkpoint, {"n": name}, {})
    listed = [one.checkpoint["id"] for one in thread.saver.list(at(thread.name))]
    assert listed == ["3", "2", "1"]
    assert thread.saver.get_tuple(at(thread.name)).checkpoint["id"] == "3"
    assert [one.checkpoint["id"] for one in thread.saver.list(at(thread.name, "2"))] == ["2"]
    before = thread.saver.list(at(thread.name), before=at(thread.name, "3"), limit=1)
    assert [one.checkpoint["id"] for one in before] == ["2"]


def test_metadata_that_is_no_json_comes_back(thread):
    metadata = {"step": float("inf"), "writes": {"x": (1, 2)}, "when": b"x", "run_id": "r"}
    checkpoint = empty_checkpoint() | {"versions_seen": {1: {"a": (1, 2)}}}
    thread.saver.put(thread.config, checkpoint, metadata, {})
    found = thread.saver.get_tuple(thread.config)
    assert found.metadata["step"] == float("inf")
    assert found.metadata["when"] == b"x"
    assert found.checkpoint["versions_seen"] == {1: {"a": [1, 2]}}


def test_deleting_hides_and_the_id_can_be_used_again(thread):
    thread.put(messages=said("a", "b"))
    thread.saver.put_writes(thread.config, [("a", 1)], "task")
    gone = thread.config
    thread.saver.delete_thread(thread.name)
    assert thread.saver.get_tuple(gone) is None
    assert [*thread.saver.list(at(thread.name))] == []
    assert (thread.shown(), thread.written()) == ([], ["a", "b"])
    thread.config = at(thread.name)
    thread.put(messages=said("c"))
    assert thread.shown() == ["c"]
    assert len([*thread.saver.list(at(thread.name))]) == 1
    again = RooContextSaver(thread.saver._store).get_tuple(gone)
    assert again is None
    assert thread.session.verify().ok


def test_another_process_has_deleted_the_thread(thread):
    config = thread.put(messages=said("a"))
    RooContextSaver(thread.saver._store).delete_thread(thread.name)
    thread.put(config, messages=said("a", "b"))
    assert thread.shown() == ["a", "b"]
    assert len([*thread.saver.list(at(thread.name))]) == 1


def test_deleting_a_run_shows_what_was_before_it(thread):
    def put(run, *texts):
        checkpoint = empty_checkpoint() | {"channel_values": {"messages": said(*texts)}}
        config = {"configurable": {**thread.config["configurable"], "run": run}}
        thread.config = thread.saver.put(config, checkpoint, {"run_id": run}, {})

    one, two = f"{thread.name}-1", f"{thread.name}-2"
    put(one, "a")
    put(two, "a", "b")
    put(two, "a", "b", "c")
    thread.saver.delete_for_runs([two])
    assert thread.shown() == ["a"]
    assert [found.metadata["run_id"] for found in thread.saver.list(at(thread.name))] == [one]
    put(two, "a", "d")
    assert thread.shown() == ["a", "d"]
    thread.saver.delete_for_runs([one, two])
    assert thread.shown() == []
    assert thread.written() == ["a", "b", "c", "d"]


def test_pruning_hides_all_but_the_newest(thread):
    configs = [thread.put(messages=said(*"abc"[:count]), n=count) for count in (1, 2, 3)]
    thread.saver.prune([thread.name])
    assert [one.config for one in thread.saver.list(at(thread.name))] == configs[-1:]
    assert thread.saver.get_tuple(configs[0]) is None
    assert thread.values() == {"messages": said(*"abc"), "n": 3}
    thread.put(configs[0], messages=said("a", "x"), n=4)
    assert thread.shown() == ["a", "x"]
    with pytest.raises(InvalidOption):
        thread.saver.prune([thread.name], strategy="some")


def test_a_copy_has_its_own_life(thread):
    thread.put(messages=said("a", "b"), n=1)
    child = at(thread.name, namespace="child:1")
    checkpoint = empty_checkpoint() | {"channel_values": {"messages": said("x")}}
    thread.saver.put(child, checkpoint, {}, {})
    thread.saver.copy_thread(thread.name, f"{thread.name}-copy")
    copy = Thread(thread.saver, f"{thread.name}-copy")
    copy.versions, copy.config = thread.versions, copy.saver.get_tuple(copy.config).config
    copy.put(messages=said("a", "b", "c"), n=1)
    assert (thread.shown(), copy.shown()) == (["a", "b"], ["a", "b", "c"])
    assert len([*copy.saver.list({"configurable": {"thread_id": copy.name}})]) == 3
    assert copy.session.info().metadata["thread_id"] == copy.name
    with pytest.raises(SessionExists):
        thread.saver.copy_thread(thread.name, copy.name)


def test_a_namespace_is_a_child_of_its_thread(thread):
    child = at(thread.name, namespace="tools:1")
    thread.saver.put_writes(
        {"configurable": {**child["configurable"], "checkpoint_id": "1"}}, [], "t"
    )
    assert [one.session_id for one in thread.session.children()] == [
        f"langgraph:{thread.name}/tools:1"
    ]
    assert thread.saver.get_tuple(child) is None
