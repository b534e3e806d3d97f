"""The service of the examples: two workers, a database behind a pooler, and a model on loopback."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from roocontext import Store
from roocontext.store.engine.roles import grants, secure
from support.fake_provider import ModelServer
from support.pgbouncer import GIVEN, bouncers, pooled
from support.server_role import Role
from support.service_workers import LEASE, Orders, Service, Worker


@pytest.fixture
def service(postgres: Any, tmp_path: Path, unused_ports: list[int]) -> Iterator[Service]:
    """Two workers over a fresh database that is secured, as a role that owns nothing."""
    found = bouncers()
    assert found, f"PgBouncer is not installed: {GIVEN} may name the program"
    url = postgres.fresh()
    tool_log = tmp_path / "tool.log"
    with ExitStack() as stack:
        stack.callback(postgres.drop, url)
        Store.open(url).close()
        secure(url)
        role = Role(url)
        stack.callback(role.drop)
        role.may(*grants("agent", erase=False))
        pooler = stack.enter_context(pooled(found[0], url, connections=10, role=role.name))
        model = stack.enter_context(ModelServer(otherwise=Orders()))
        environment = {
            **{name: value for name, value in os.environ.items() if "proxy" not in name.lower()},
            "DATABASE_URL": pooler,
            "ANTHROPIC_BASE_URL": model.url,
            "ANTHROPIC_API_KEY": "none",
            "LEASE": str(LEASE),
            "TOOL_LOG": str(tool_log),
            "NO_PROXY": "*",
        }
        workers = [Worker(port, environment) for port in unused_ports]
        starts = [threading.Thread(target=worker.start) for worker in workers]
        for one in starts:
            one.start()
        for one, worker in zip(starts, workers, strict=True):
            one.join()
            stack.callback(worker.end)
        yield Service(workers, url, role, tool_log, model)


@pytest.fixture
def unused_ports() -> list[int]:
    """Ports for the workers, which keep them over a restart."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(closing(_bound())) for _ in range(2)]
        return [one.getsockname()[1] for one in sockets]


def _bound() -> socket.socket:
    one = socket.socket()
    one.bind(("127.0.0.1", 0))
    return one
