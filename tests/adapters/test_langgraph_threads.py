"""Threads and their ids, writes of tasks, deleting, pruning, copying."""

import hashlib
import json

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.base import CipherProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer

from roocontext import InvalidOption, SessionExists
from roocontext.adapters.langgraph import RooContextSaver
from roocontext.errors import InvalidIdentifier
from support.langgraph_thread import Thread, at, said


class Reversing(CipherProtocol):
    """No secret, but no plain text either."""

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        return "reversed", plaintext[::-1]

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        assert ciphername == "reversed"
        return ciphertext[::-1]


def test_encrypted_values_are_not_stored_in_the_clear(shared_store, thread):
    thread.saver = RooContextSaver(shared_store, serde=EncryptedSerializer(Reversing()))
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


def test_call_that_is_repeated_writes_nothing(thread):
    config = thread.put(messages=said("a"))
    checkpoint = empty_checkpoint() | {"channel_values": {"messages": said("a", "b")}}
    checkpoint["channel_versions"] = {"messages": "2"}
    for _ in range(2):
        thread.saver.put(config, checkpoint, {}, {"messages": "2"})
        RooContextSaver(thread.store).put(config, checkpoint, {}, {"messages": "2"})
    assert thread.written() == ["a", "b"]
    assert len([*thread.saver.list(at(thread.name))]) == 2
    last = thread.session.head().seq
    changed = checkpoint | {"channel_values": {"messages": said("a", "x")}}
    for values, shown in ((changed, ["a", "x"]), (checkpoint, ["a", "b"]), (changed, ["a", "x"])):
        thread.saver.put(config, values, {}, {"messages": "2"})
        assert thread.shown() == shown
        assert len([*thread.saver.list(at(thread.name))]) == 2
    assert thread.session.head().seq > last


def test_key_of_a_stored_call_is_made_of_json(thread):
    config = thread.put(messages=said("a", "é\ud800"), n=1.0)
    thread.saver.put_writes(config, [("n", 2)], "task")
    task, note = thread.session.internals.newest_notes("langgraph/", limit=9)
    for found, parts in (
        (task, [0, config["configurable"]["checkpoint_id"], task.content]),
        (note, [0, without_key(note.content), {"messages": digests(thread.session)}]),
    ):
        text = json.dumps(parts, separators=(",", ":"))
        key = "langgraph:" + hashlib.sha256(text.encode()).hexdigest()[:40]
        assert thread.session.internals.noted([key])[key].seq == found.seq


def without_key(content):
    return {name: value for name, value in content.items() if name != "key"}


def digests(session):
    texts = (
        json.dumps(one.content, separators=(",", ":")).encode() for one in session.view().messages
    )
    return "".join(hashlib.blake2b(text, digest_size=16).hexdigest() for text in texts)


@pytest.mark.parametrize(
    "name", ["", "a/b", "a%2Fb", "~a", "x" * 400, "\ud800", "\0", "тема ✓", " "]
)
def test_thread_id_may_be_any_string(saver, name):
    own = saver._given.run_now(lambda store: store.create()).id
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


def test_id_that_is_too_long_is_refused_with_its_size(thread):
    with pytest.raises(InvalidIdentifier, match="session_id has 1,010 bytes"):
        thread.saver.put(at("x" * 1_000), empty_checkpoint(), {}, {})
    with pytest.raises(InvalidIdentifier, match="1,017 bytes"):
        thread.saver.put(at(thread.name), empty_checkpoint() | {"id": "x" * 1_000}, {}, {})
    assert [*thread.saver.list(at(thread.name))] == []


def test_checkpoint_id_may_be_any_string(thread):
    names = ["a", "a b", "a!", "b/c", "~", "x" * 900, "é", "\ud800"]
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


def test_newest_is_that_with_the_greatest_id(thread):
    for name in ("3", "1", "2"):
        checkpoint = empty_checkpoint() | {"id": name, "channel_values": {}}
        thread.saver.put(at(thread.name), checkpoint, {"n": name}, {})
    assert [one.checkpoint["id"] for one in thread.saver.list(at(thread.name))] == ["3", "2", "1"]
    assert thread.saver.get_tuple(at(thread.name)).checkpoint["id"] == "3"
    assert [one.checkpoint["id"] for one in thread.saver.list(at(thread.name, "2"))] == ["2"]
    before = thread.saver.list(at(thread.name), before=at(thread.name, "3"), limit=1)
    assert [one.checkpoint["id"] for one in before] == ["2"]
    assert [*thread.saver.list(at(thread.name), limit=-1)] == []


def test_metadata_beyond_json_comes_back(thread):
    metadata = {"step": float("inf"), "writes": {"x": (1, 2)}, "when": b"x", "run_id": "r"}
    checkpoint = empty_checkpoint() | {"versions_seen": {1: {"a": (1, 2)}}}
    thread.saver.put(thread.config, checkpoint, metadata, {})
    found = thread.saver.get_tuple(thread.config)
    assert (found.metadata["step"], found.metadata["when"]) == (float("inf"), b"x")
    assert found.checkpoint["versions_seen"] == {1: {"a": [1, 2]}}


def test_deleted_thread_is_hidden_and_its_id_can_be_used_again(thread):
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
    assert RooContextSaver(thread.store).get_tuple(gone) is None
    assert thread.session.verify().ok


def test_thread_deleted_by_another_process_is_begun_anew(thread):
    config = thread.put(messages=said("a"))
    RooContextSaver(thread.store).delete_thread(thread.name)
    thread.put(config, messages=said("a", "b"))
    assert thread.shown() == ["a", "b"]
    assert len([*thread.saver.list(at(thread.name))]) == 1


def test_deleting_a_thread_whose_own_session_was_purged_hides_its_namespaces(thread):
    for namespace in ("", "sub"):
        thread.saver.put(at(thread.name, namespace=namespace), empty_checkpoint(), {}, {})
    thread.store.purge(f"langgraph:{thread.name}")
    thread.saver.delete_thread(thread.name)
    assert [*thread.saver.list({"configurable": {"thread_id": thread.name}})] == []


def test_repeated_calls_reach_a_thread_that_another_process_has_begun_anew(thread):
    other, checkpoint = RooContextSaver(thread.store), empty_checkpoint()
    for _ in range(2):
        config = thread.saver.put(at(thread.name), checkpoint, {}, {})
        thread.saver.put_writes(config, [("w", 1)], "task")
        assert other.get_tuple(config).pending_writes == [("task", "w", 1)]
        other.delete_thread(thread.name)
    other.put(at(thread.name), checkpoint, {}, {})
    thread.saver.put_writes(config, [("w", 1)], "task")
    assert other.get_tuple(config).pending_writes == [("task", "w", 1)]


def test_deleted_run_shows_the_checkpoints_before_it(thread):
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
    assert (thread.shown(), thread.written()) == ([], ["a", "b", "c", "d"])


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


def test_no_checkpoint_names_a_parent_that_is_hidden(thread):
    def parents():
        listed = [*thread.saver.list(at(thread.name))]
        assert thread.saver.get_tuple(at(thread.name)) == (listed[0] if listed else None)
        ids = {one.checkpoint["id"] for one in listed}
        assert {one.parent_config["configurable"]["checkpoint_id"] for one in listed[:-1]} <= ids
        return [one.parent_config for one in listed]

    configs = []
    for run in ("1", "2", "2", "3"):
        checkpoint = empty_checkpoint() | {"channel_values": {"n": run}}
        before = configs[-1] if configs else at(thread.name)
        run_of = {"run_id": f"{thread.name}-{run}"}
        configs.append(thread.saver.put(before, checkpoint, run_of, {"n": run}))
    assert parents() == [*reversed(configs[:-1]), None]
    thread.saver.put_writes(configs[3], [("w", 1)], "task")
    thread.saver.delete_for_runs([f"{thread.name}-2"])
    first, last = (thread.saver.get_tuple(configs[place]) for place in (0, 3))
    assert (first.parent_config, last.parent_config) == (None, None)
    assert last.pending_writes == [("task", "w", 1)]
    thread.saver.put(configs[3], empty_checkpoint(), {}, {})
    thread.saver.prune([thread.name])
    assert parents() == [None]
    assert thread.session.verify().ok


def test_single_string_is_not_taken_for_a_list_of_ids(thread):
    digits = [f"{thread.name}{digit}" for digit in "12"]
    for name in [*digits, "1", "2"]:
        thread.saver.put(at(name), empty_checkpoint(), {"run_id": name}, {})
    saver = thread.saver
    for call in (
        lambda: saver.prune("12"),
        lambda: saver.prune("12", strategy="delete"),
        lambda: saver.delete_for_runs("12"),
        lambda: saver.get_delta_channel_history(config=at("1"), channels="ab"),
    ):
        with pytest.raises(TypeError, match="is a list of ids, not a str"):
            call()
    for name in [*digits, "1", "2"]:
        assert saver.get_tuple(at(name)) is not None
    saver.prune([1], strategy="delete")  # ids may be numbers, as in a config
    saver.delete_thread(2)
    assert (saver.get_tuple(at("1")), saver.get_tuple(at(2))) == (None, None)


def test_checkpoints_that_are_their_own_ancestors_end(thread):
    one = thread.put(a=1)
    two = thread.put(a=2)
    name = one["configurable"]["checkpoint_id"]
    checkpoint = empty_checkpoint() | {"id": name, "channel_values": {}}
    for parent in (two, one):
        thread.saver.put(parent, checkpoint, {}, {})
        thread.saver.put_writes(two, [("log", "x")], "task")
        found = thread.saver.get_delta_channel_history(config=two, channels=["log"])
        assert [value for _, _, value in found["log"]["writes"]] in (["x"], [])
        assert thread.saver.get_tuple(one).checkpoint["channel_values"] == {}


@pytest.mark.parametrize("own", [True, False])
def test_channel_that_a_step_did_not_write_has_the_value_that_it_had(thread, own):
    saver = thread.saver if own else InMemorySaver()
    config = at(thread.name)
    steps = [({"b": 1, "c": 1}, {"b": "1", "c": "1"}), ({"c": 2}, {"c": "2"}), ({}, {"c": "3"})]
    versions = {}
    for values, new in steps:
        versions |= new
        checkpoint = empty_checkpoint() | {"channel_values": values}
        checkpoint["channel_versions"] = dict(versions)
        config = saver.put(config, checkpoint, {}, new)
    found = [one.checkpoint["channel_values"] for one in saver.list(at(thread.name))]
    assert found == [{"b": 1}, {"b": 1, "c": 2}, {"b": 1, "c": 1}]


FOUND = [
    *({"a": {"b": 1}}, {"a": {"b": 1, "c": [1, {"d": None}]}}, {"a": {"c": [{"d": None}]}}),
    *({"a": {"c": []}, "list": [3, 1]}, {"a": {"b": 1.0}}, {"a": {}}, {"a.b": 1}),
    *({"a.c.x": None, "no": None}, {"x.y": "literal"}, {}),
]
NOT_FOUND = [
    *({"a": {"c": [{"d": 1}]}}, {"a": {"b": 2}}, {"a": {"b": True}}, {"a": {"b": {"c": 1}}}),
    *({"list": 1}, {"list": [4]}, {"a.b": 2}),
]


@pytest.mark.parametrize(
    ("wanted", "is_found"), [*((it, True) for it in FOUND), *((it, False) for it in NOT_FOUND)]
)
def test_filter_is_contained_in_the_metadata(thread, wanted, is_found):
    metadata = {
        "a": {"b": 1, "c": [1, {"d": None, "e": 2}]},
        "list": [1, 2, 3],
        "x.y": "literal",
        "x": {"y": "nested"},
    }
    config = thread.saver.put(at(thread.name), empty_checkpoint(), metadata, {})
    found = [one.config for one in thread.saver.list(at(thread.name), filter=wanted)]
    assert found == ([config] if is_found else [])


@pytest.mark.parametrize("wanted", ["a", [("a", 1)], {1: 2}])
def test_wrong_filter_is_refused(thread, wanted):
    with pytest.raises(InvalidOption):
        next(thread.saver.list(at(thread.name), filter=wanted), None)


def test_copied_thread_is_independent(thread):
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
    assert [one.session_id for one in copy.session.children()] == [f"langgraph:{copy.name}/child:1"]
    with pytest.raises(SessionExists):
        thread.saver.copy_thread(thread.name, copy.name)


def test_namespace_is_a_child_of_its_thread(thread):
    child = at(thread.name, namespace="tools:1")
    thread.saver.put_writes(
        {"configurable": {**child["configurable"], "checkpoint_id": "1"}}, [], "t"
    )
    assert [one.session_id for one in thread.session.children()] == [
        f"langgraph:{thread.name}/tools:1"
    ]
    assert thread.saver.get_tuple(child) is None
    saved = thread.saver.put(child, empty_checkpoint(), {}, {})
    (found,) = thread.saver.list(at(thread.name, namespace=None))
    assert found.config == saved
