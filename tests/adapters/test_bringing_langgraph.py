"""Threads that LangGraph's own checkpointers have written, imported without LangGraph."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from functools import reduce
from typing import Annotated, Any

import psycopg
import pytest
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES, add_messages
from typing_extensions import TypedDict

from roocontext import Store
from roocontext.adapters.langgraph_messages import to_content
from roocontext.formats import import_paths
from roocontext.formats.writing import SessionImport

THREAD = {"configurable": {"thread_id": "one/two"}}
SESSION = "langgraph-saver:one%2Ftwo"


class Notes(MessagesState):
    """A state with a second conversation, and a value that JSON does not have."""

    notes: Annotated[list[AnyMessage], add_messages]
    seen: set[str]


def answer(state: Any) -> Any:
    """A call, its result, or what the test has asked for."""
    last = state["messages"][-1]
    if "forget" in last.content:
        kept = state["messages"][-1:]
        summary = [SystemMessage("What was said.")] if "summary" in last.content else []
        return {"messages": [RemoveMessage(REMOVE_ALL_MESSAGES), *summary, *kept]}
    if "correct" in last.content:
        return {"messages": [HumanMessage("Corrected.", id=state["messages"][0].id)]}
    call = {"name": "look", "args": {"n": 1, "deep": {"x": [None, 2.5]}}, "id": f"call {last.id}"}
    reply = AIMessage(
        [{"type": "text", "text": "I look."}],
        tool_calls=[call],
        usage_metadata={"input_tokens": 7, "output_tokens": 2, "total_tokens": 9},
        response_metadata={"model_name": "gpt-5"},
    )
    result = ToolMessage("seen", tool_call_id=str(call["id"]), artifact={"at": b"\x00"})
    return {"messages": [reply, result], "notes": [HumanMessage("noted")], "seen": {"a"}}


def added(messages: list[AnyMessage], writes: Any) -> Any:
    return reduce(add_messages, writes, messages)


class Deltas(TypedDict):
    """A state whose conversation is stored as changes."""

    messages: Annotated[list[AnyMessage], DeltaChannel(added)]


def compiled(saver: Any, schema: Any = MessagesState) -> Any:
    graph = StateGraph(schema)
    graph.add_node("answer", answer)
    graph.add_edge(START, "answer")
    return graph.compile(checkpointer=saver)


@contextmanager
def in_file(place: str, **options: Any) -> Iterator[Any]:
    with closing(sqlite3.connect(place, check_same_thread=False)) as connection:
        yield SqliteSaver(connection, **options)


@contextmanager
def on_server(place: str, **options: Any) -> Iterator[Any]:
    with PostgresSaver.from_conn_string(place) as saver:
        if serde := options.get("serde"):
            saver.serde = serde
        saver.setup()
        yield saver


SAVERS = {"file": in_file, "postgres": on_server}


@pytest.fixture(params=[*SAVERS])
def place(request: pytest.FixtureRequest, tmp_path: Any) -> str:
    """Where a checkpointer writes: a file, or a database of its own."""
    if request.param == "file":
        return str(tmp_path / "checkpoints.db")
    return request.getfixturevalue("server_url")


def saver_of(place: str, **options: Any) -> Any:
    return SAVERS["postgres" if "://" in place else "file"](place, **options)


@pytest.fixture
def store() -> Iterator[Store]:
    with Store.open(":memory:") as opened:
        yield opened


def imported(store: Store, place: str) -> list[SessionImport]:
    return [one for one in import_paths(store, [place]) if isinstance(one, SessionImport)]


def ask(graph: Any, text: str, config: Any = THREAD) -> None:
    graph.invoke({"messages": [HumanMessage(text)]}, config)


def assert_shows(store: Store, graph: Any, saver: Any, config: Any = THREAD) -> None:
    """The session shows what the graph has, each message as the adapter would store it."""
    state = graph.get_state(config).values["messages"]
    view = store.session(SESSION).view()
    main = [row.content for row in view.messages if "channel" not in row.content]
    wanted = [to_content(message, saver.serde) for message in state]
    assert main == [_readable(one) for one in wanted]


def _readable(content: Any) -> Any:
    """What the adapter stores in a form of the serializer's is plain JSON in an import."""
    data = {**content["data"]}
    if content["type"] == "tool" and "raw" in content:
        data["artifact"] = {"at": {"base64": "AA=="}}
    return {"type": content["type"], "data": data}


def test_thread_is_imported_once_and_then_continued(store, place):
    with saver_of(place) as saver:
        graph = compiled(saver)
        ask(graph, "first")
        (first,) = imported(store, place)
        again = imported(store, place)
        ask(graph, "second")
        (more,) = imported(store, place)
        assert_shows(store, graph, saver)
        state = graph.get_state(THREAD)
    assert (first.status, first.messages, first.problems) == ("created", 3, ())
    assert [(one.status, one.new) for one in again] == [("unchanged", 0)]
    assert (more.status, more.messages, more.controls) == ("continued", 3, 0)
    chat = store.session(SESSION)
    reply, result = [row.entry for row in chat.audit() if row.visible][-2:]
    assert (reply.model, reply.usage["input_tokens"]) == ("gpt-5", 7)
    assert chat.pending() == []
    assert result.ts is not None
    assert abs(result.ts / 1000 - _seconds(state.created_at)) < 1


def test_message_changed_by_its_id_is_a_rewind(store, place):
    with saver_of(place) as saver:
        graph = compiled(saver)
        ask(graph, "first")
        ask(graph, "correct that")
        imported(store, place)
        assert_shows(store, graph, saver)
    assert [it.status for it in imported(store, place)] == ["unchanged"]


@pytest.mark.parametrize(("text", "kind"), [("forget", "marker"), ("forget, summary", "summary")])
def test_removed_messages_are_hidden(store, place, text, kind):
    with saver_of(place) as saver:
        graph = compiled(saver)
        ask(graph, "first")
        ask(graph, text)
        imported(store, place)
        ask(graph, "third")
        (more,) = imported(store, place)
        state = graph.get_state(THREAD).values["messages"]
    assert more.problems == ()
    chat = store.session(SESSION)
    shown = [row for row in chat.view().messages if "marker" not in row.content]
    assert [row.content["data"]["id"] for row in shown] == [one.id for one in state]
    assert [row.kind.value for row in chat.audit() if row.kind.value == kind] == [kind]


def test_conversations_of_two_channels_share_the_session(store, place):
    with saver_of(place) as saver:
        graph = compiled(saver, Notes)
        ask(graph, "first")
        ask(graph, "second")
        (one,) = imported(store, place)
        assert_shows(store, graph, saver)
    assert one.problems == ()
    contents = [row.content for row in store.session(SESSION).view().messages]
    assert sum(it.get("channel") == "notes" for it in contents) == 2


def test_subgraph_is_a_child_session(store, place):
    with saver_of(place) as saver:
        inner = StateGraph(MessagesState)
        inner.add_node("answer", answer)
        inner.add_edge(START, "answer")
        outer = StateGraph(MessagesState)
        outer.add_node("inner", inner.compile(checkpointer=True))
        outer.add_edge(START, "inner")
        ask(outer.compile(checkpointer=saver), "first")
        whole, child = imported(store, place)
    assert child.session_id.startswith(f"{SESSION}/inner")
    assert store.session(child.session_id).info().parent == whole.session_id == SESSION


def test_pruned_thread_adds_nothing(store, place):
    with saver_of(place) as saver:
        graph = compiled(saver)
        for text in ("first", "second"):
            ask(graph, text)
        imported(store, place)
        if "://" in place:
            saver.prune([THREAD["configurable"]["thread_id"]], strategy="keep_latest")
        else:  # SqliteSaver cannot, so its users do this
            with saver.cursor() as cursor:
                cursor.execute(
                    "DELETE FROM checkpoints"
                    " WHERE checkpoint_id < (SELECT max(checkpoint_id) FROM checkpoints)"
                )
        (after,) = imported(store, place)
        assert_shows(store, graph, saver)
    assert (after.messages, after.controls) == (0, 0)


def test_encrypted_thread_is_refused(store, place):
    serde = EncryptedSerializer.from_pycryptodome_aes(key=b"0123456789abcdef")
    with saver_of(place, serde=serde) as saver:
        ask(compiled(saver), "first")
        (one,) = imported(store, place)
    assert one.failed
    assert "stored as 'msgpack+aes'" in str(one.problems[0])
    assert store.sessions() == []


def test_delta_channel_is_reported(store, place):
    with saver_of(place) as saver:
        ask(compiled(saver, Deltas), "first")
        (one,) = imported(store, place)
    assert one.failed
    assert "messages is stored as changes" in str(one.problems[0])


def test_checkpoint_of_a_newer_release_is_refused(store, place, monkeypatch):
    monkeypatch.setattr("langgraph.pregel._checkpoint.LATEST_VERSION", 5)
    with saver_of(place) as saver:
        ask(compiled(saver), "first")
        (one,) = imported(store, place)
    assert one.failed
    assert "has version 5, and the newest that is known is 4" in str(one.problems[0])


def test_tables_of_another_release_are_refused(store, place):
    with saver_of(place) as saver:
        ask(compiled(saver), "first")
    drop = "ALTER TABLE checkpoints RENAME COLUMN parent_checkpoint_id TO parent"
    if "://" in place:
        with psycopg.connect(place) as server:
            server.execute(drop)
    else:
        with closing(sqlite3.connect(place)) as file:
            file.execute(drop)
    (one,) = import_paths(store, [place])
    assert not isinstance(one, SessionImport)
    assert one.is_problem
    assert "its table checkpoints has no column parent_checkpoint_id" in one.why


def _seconds(iso: str) -> float:
    return datetime.fromisoformat(iso).timestamp()
