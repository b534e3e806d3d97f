"""What an observer is told of a store's operations, and that it can do no harm."""

import asyncio
import logging
import threading
from typing import Any, NoReturn

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from roocontext import (
    AsyncContextManager,
    AsyncStore,
    ContextManager,
    InvalidOption,
    NewMessage,
    Pin,
    Plan,
    Store,
    StoreUnavailable,
)
from roocontext.errors import (
    MessageNotFound,
    PoolExhausted,
    SchemaMismatch,
    StoreClosed,
    VersionConflict,
)
from roocontext.telemetry import OpenTelemetry, StoreOperation
from support.dialogue import call, result
from support.replies import CLAUDE, claude, readable

USAGE = {"input_tokens": 30, "output_tokens": 4, "cache_read_input_tokens": 20}
SECRET = "the secret of the user"


class Listener:
    """Keeps every operation."""

    def __init__(self) -> None:
        self.begun: list[tuple[str, str | None]] = []
        self.done: list[StoreOperation] = []

    def started(self, operation: StoreOperation) -> None:
        """See Observer."""
        self.begun.append((operation.name, operation.session_id))

    def finished(self, operation: StoreOperation) -> None:
        """See Observer."""
        self.done.append(operation)

    def last(self, name: str) -> StoreOperation:
        """The last operation of this name."""
        return [it for it in self.done if it.name == name][-1]


class Faulty:
    """Raises in both of its methods."""

    def started(self, operation: StoreOperation) -> None:
        """See Observer."""
        raise RuntimeError(f"{SECRET} {operation.name}")

    def finished(self, operation: StoreOperation) -> None:
        """See Observer."""
        raise KeyError(f"{SECRET} {operation.name}")


def test_operation_is_told_with_its_name_session_and_counts(leg, opened):
    listener = Listener()
    with opened(*leg, observer=listener) as lab:
        chat = lab.store.create("one", title="a title")
        chat.append("user", SECRET)
        chat.append_many([NewMessage("assistant", "b"), NewMessage("user", "c")])
        chat.view()
        chat.commit(Plan.condense(chat.view(), [2, 3], "short"))
        lab.store.sessions()
        request = chat.request("anthropic", model=CLAUDE, unanswered=True)
        recorded = [chat.record(claude(readable("All so far.")), request) for _ in range(2)]
        chat.append("assistant", [call("a")])
        chat.append("user", [result("a", SECRET)])
        clearing = chat.commit(Plan.clear(chat.view(), [(chat.head_seq(), 0)], ""))
        compared = chat.diff(clearing.seq - 1)
    assert listener.begun[:2] == [("create", "one"), ("append", "one")]
    assert [it.name for it in listener.done][:4] == ["create", "append", "append_many", "view"]
    assert all(it.duration > 0 and it.error is None and it.retries == 0 for it in listener.done)
    assert listener.last("append_many").counts == {"items": 2}
    assert listener.done[3].counts == {"messages": 3}
    commits = [it for it in listener.done if it.name == "commit"]
    assert [it.compacted for it in commits] == [True, True]
    assert commits[0].counts["hidden"] == 2
    assert not listener.last("view").compacted
    assert [it.hidden for it in recorded] == [2, 2]
    assert [it.compacted for it in listener.done if it.name == "record"] == [True, False]
    assert len(compared.cleared) == 1
    assert not listener.last("diff").compacted
    assert (listener.last("sessions").session_id, listener.last("sessions").counts) == (
        None,
        {"items": 1},
    )
    assert SECRET not in repr(listener.done)


def test_faults_of_an_observer_harm_no_operation(leg, opened, caplog):
    with caplog.at_level(logging.WARNING), opened(*leg, observer=Faulty()) as lab:
        chat = lab.store.create()
        assert chat.append("user", "hello").seq == 1
        with pytest.raises(VersionConflict):
            chat.append("user", "again", expected_seq=7)
        assert len(chat.view().messages) == 1
        assert chat.verify().ok
    assert "RuntimeError" in caplog.text
    assert "KeyError" in caplog.text
    assert SECRET not in caplog.text


@pytest.mark.one_leg
@pytest.mark.parametrize("observer", [1, "otel", object(), lambda _: None])
def test_observer_without_its_methods_is_refused(leg, observer):
    with pytest.raises(InvalidOption, match="started and finished"):
        Store.open(":memory:", observer=observer)


def test_usage_of_recorded_replies_is_told_once(leg, opened):
    listener = Listener()
    with opened(*leg, observer=listener) as lab:
        chat = lab.store.create()
        for _ in range(2):
            chat.append("assistant", "a", model="m", usage=USAGE, client_id="reply-1")
        chat.append_many([NewMessage("assistant", "b", model="n", usage=USAGE)])
        reply = {"id": "msg_1", "type": "message", "role": "assistant", "model": "o"}
        reply |= {"content": [{"type": "text", "text": "c"}], "usage": USAGE}
        reply |= {"stop_reason": "end_turn", "stop_sequence": None}
        chat.record(reply)
        entries = list(chat.internals.stored())
        for dry_run in (True, False):
            lab.store.restore("copy", entries, dry_run=dry_run)
        with pytest.raises(MessageNotFound):
            chat.write_batch([NewMessage("assistant", "d", usage=USAGE), Pin(99)])
    calls = [call for it in listener.done for call in it.calls]
    assert [call.model for call in calls] == ["m", "n", "o"]
    assert calls[0].usage == USAGE


@pytest.mark.parametrize("engine", ["file", "postgres"], indirect=True)
def test_wait_for_another_writer_is_told(engine, opened):
    listener, is_locked, may_end = Listener(), threading.Event(), threading.Event()

    def lock(tx: Any) -> None:
        tx.command("UPDATE sessions SET title = title")
        is_locked.set()
        may_end.wait(60)

    with opened(engine, "sync", observer=listener) as lab, Store.open(lab.url) as other:
        chat = lab.store.create("one")
        holder = threading.Thread(target=other._database.write, args=(lock,))
        holder.start()
        assert is_locked.wait(60)
        threading.Timer(0.3, may_end.set).start()
        chat.append("user", "hello")
        chat.append_many([NewMessage("user", "again")])
        holder.join()
    waited = listener.last("append")
    assert 0.1 < waited.lock_wait <= waited.duration
    free = listener.last("append_many")
    assert 0 < free.lock_wait < waited.lock_wait


def test_wait_for_a_connection_is_told(postgres_url):
    listener = Listener()
    with Store.open(
        postgres_url, observer=listener, pool_size=1, max_overflow=0, pool_timeout=30
    ) as store:
        store.create("one")
        with store._database.read():
            reading = threading.Thread(target=store.sessions)
            reading.start()
            threading.Event().wait(0.3)
        reading.join()
        assert listener.last("sessions").connection_wait > 0.1


def test_manager_is_told_with_its_tokens(leg, opened):
    listener = Listener()
    with opened(leg[0], "sync", observer=listener) as lab:
        chat = lab.store.create("one")
        for number in range(30):
            chat.append("user" if number % 2 == 0 else "assistant", f"message {number} " * 40)
        outcome = ContextManager(policy="sliding_window", limit=2_000).manage(chat)
        managed = listener.last("manage")
        assert outcome.changed
        assert (managed.session_id, managed.compacted) == ("one", True)
        assert managed.counts["tokens_before"] == outcome.tokens_before
        assert managed.counts["tokens_after"] == outcome.tokens_after
        assert not listener.done[0].compacted
        preview = ContextManager(policy="sliding_window", limit=1_000).preview(chat)
        assert preview.changed
        assert not listener.last("preview").compacted


# OpenTelemetry


class Exported:
    """An observer whose spans and metrics stay in memory."""

    def __init__(self, **options: Any) -> None:
        self._spans, self._reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self._spans))
        meters = MeterProvider([self._reader])
        self.observer = OpenTelemetry(self.tracers, meters, **options)

    def spans(self) -> list[Any]:
        """The spans that have ended."""
        return list(self._spans.get_finished_spans())

    def points(self, name: str) -> list[Any]:
        """The data points of a metric."""
        data = self._reader.get_metrics_data()
        return [
            point
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]


def test_spans_have_the_names_of_the_conventions(leg, opened):
    exported = Exported()
    with opened(*leg, observer=exported.observer) as lab:
        chat = lab.store.create("one")
        chat.append("user", SECRET)
        chat.append("assistant", SECRET, model="m", usage=USAGE)
        chat.commit(Plan.condense(chat.view(), [1], "a summary"))
        lab.store.search(SECRET)
        with pytest.raises(VersionConflict):
            chat.append("user", SECRET, expected_seq=7)
    spans = exported.spans()
    assert [span.name for span in spans] == [
        *("roocontext.create", "roocontext.append", "roocontext.append", "roocontext.view"),
        *("roocontext.commit", "roocontext.search", "roocontext.append"),
    ]
    assert {span.attributes["gen_ai.conversation.id"] for span in spans[:5]} == {"one"}
    reply, commit, search, failed = spans[2], spans[4], spans[5], spans[6]
    assert reply.attributes["gen_ai.response.model"] == "m"
    assert reply.attributes["gen_ai.usage.input_tokens"] == 50
    assert reply.attributes["gen_ai.usage.cache_read.input_tokens"] == 20
    assert reply.attributes["gen_ai.usage.output_tokens"] == 4
    assert commit.attributes["gen_ai.conversation.compacted"] is True
    compacted = [span for span in spans if "gen_ai.conversation.compacted" in span.attributes]
    assert compacted == [commit]
    assert search.attributes["gen_ai.operation.name"] == "search_memory"
    assert failed.attributes["error.type"] == "VersionConflict"
    assert not failed.status.is_ok
    assert all(SECRET not in span.to_json() for span in spans)
    assert {
        it.attributes["gen_ai.token.type"]: it.sum
        for it in exported.points("gen_ai.client.token.usage")
    } == {"input": 50, "output": 4}
    durations = exported.points("gen_ai.client.operation.duration")
    counted = {it.attributes["gen_ai.operation.name"]: it.count for it in durations}
    assert counted["create"] == counted["search_memory"] == 1
    errors = [it.attributes["error.type"] for it in durations if "error.type" in it.attributes]
    assert errors == ["VersionConflict"]


@pytest.mark.one_leg
def test_token_usage_can_be_left_to_another_instrumentation(leg):
    exported = Exported(token_usage=False)
    with Store.open(":memory:", observer=exported.observer) as store:
        store.create().append("assistant", "a", model="m", usage=USAGE)
    assert exported.points("gen_ai.client.token.usage") == []


@pytest.mark.one_leg
def test_spans_of_async_operations_belong_to_the_callers_span(leg, tmp_path):
    exported = Exported()
    tracer = exported.tracers.get_tracer("service")

    async def serve(store: AsyncStore, name: str) -> None:
        with tracer.start_as_current_span(name):
            chat = await store.create(name)
            await chat.append("user", "hello")
            await AsyncContextManager(policy="sliding_window", limit=8_000).manage(chat)
            assert trace.get_current_span().name == name

    async def main() -> None:
        async with await AsyncStore.open(
            tmp_path / "store.db", observer=exported.observer
        ) as store:
            await asyncio.gather(*(serve(store, f"request {number}") for number in range(4)))

    asyncio.run(main())
    spans = exported.spans()
    requests = {span.context.span_id: span.name for span in spans if span.parent is None}
    assert sorted(requests.values()) == [f"request {number}" for number in range(4)]
    for span in spans:
        if span.name in ("roocontext.create", "roocontext.append", "roocontext.manage"):
            owner = requests[span.parent.span_id]
            assert span.attributes["gen_ai.conversation.id"] == owner


# Health checks


def test_ping_of_a_closed_store_is_refused(tmp_path, postgres_url):
    for url in (tmp_path / "store.db", postgres_url):
        store = Store.open(url)
        store.close()
        with pytest.raises(StoreClosed):
            store.ping()


def test_ping_notices_a_schema_that_no_longer_supports_this_release(lab):
    lab.store.ping()
    lab.sql("UPDATE roocontext_version SET version_num = '0009'")
    lab.store.ping()
    lab.sql("UPDATE roocontext_version SET oldest_release = '9.0'")
    with pytest.raises(SchemaMismatch, match=r"9\.0 or newer"):
        lab.store.ping()


def test_ping_that_is_not_answered_ends_in_time(postgres_url):
    with Store.open(postgres_url) as store, Store.open(postgres_url) as other:
        hanging, may_end = threading.Event(), threading.Event()

        def lock() -> None:
            def hold(tx: Any) -> None:
                tx.command("LOCK TABLE roocontext_version IN ACCESS EXCLUSIVE MODE")
                hanging.set()
                may_end.wait(60)

            other._database.write(hold)

        holder = threading.Thread(target=lock)
        holder.start()
        assert hanging.wait(60)
        before = threading.active_count()
        for _ in range(3):
            with pytest.raises(StoreUnavailable, match=r"within 0\.1 seconds"):
                store.ping(timeout=0.1)
        assert threading.active_count() == before + 1
        may_end.set()
        holder.join()
        store.ping(timeout=60)


def test_ping_without_a_free_connection_says_so(postgres_url):
    with Store.open(postgres_url, pool_size=1, max_overflow=0, pool_timeout=0.1) as store:
        with store._database.read(), pytest.raises(PoolExhausted):
            store.ping()
        store.ping()


@pytest.mark.one_leg
def test_ping_after_one_that_was_interrupted_is_answered(leg, monkeypatch):
    def interrupt(*_: Any, **__: Any) -> NoReturn:
        raise KeyboardInterrupt

    with Store.open(":memory:") as store:
        with monkeypatch.context() as patch:
            patch.setattr("roocontext.store.engine.threads.started", interrupt)
            with pytest.raises(KeyboardInterrupt):
                store.ping()
        store.ping()


@pytest.mark.one_leg
@pytest.mark.parametrize("timeout", [-1, "1", None, float("nan")])
def test_ping_with_a_wrong_timeout_is_refused(leg, timeout):
    with Store.open(":memory:") as store, pytest.raises(InvalidOption):
        store.ping(timeout=timeout)
