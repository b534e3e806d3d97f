"""The API against its own OpenAPI document: no answer that differs from it, and no failure.

Schemathesis makes the requests. Most of them are about sessions that exist.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from roocontext import Plan, Store
from roocontext.web.api.openapi import openapi
from roocontext.web.api.table import OPERATIONS
from support.dialogue import call, fill
from support.web_server import TOKEN, serving

CASES = 1_000
HEADERS = {"authorization": f"Bearer {TOKEN}"}
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    unsupported_method,
]
NAMES = ["plain", "condensed", "waiting", "a/b ?#%"]


def fill_store(store: Store) -> None:
    """Sessions in which most operations have something to do."""
    for name in NAMES:
        fill(store.create(name, title=name, metadata={"tool": name}), 6)
    condensed = store.session("condensed")
    condensed.commit(Plan.condense(condensed.view(), [3, 4], "S"))
    condensed.rewind(7)
    store.session("waiting").append("assistant", [call("t1")])


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with (
        Store.open(tmp_path_factory.mktemp("web") / "store.db", durability="normal") as store,
        serving(store, allow_write=True, admin=True) as client,
    ):
        fill_store(store)
        yield f"http://{client.host}"


# Each request has the token: without it there is only one answer.
DOCUMENT = json.loads(json.dumps(openapi(OPERATIONS))) | {"security": []}
schema = schemathesis.openapi.from_dict(DOCUMENT).exclude(path_regex="/events$")


@schemathesis.hook
def map_path_parameters(_context: Any, parameters: dict[str, Any]) -> dict[str, Any]:
    """Ask about a session that exists, or about another one in a while."""
    if parameters and (name := str(parameters.get("session", ""))):
        index = sum(map(ord, name)) % (len(NAMES) + 1)
        if index < len(NAMES):
            parameters["session"] = NAMES[index]
    return parameters


@schema.parametrize()
@settings(
    max_examples=CASES // len(OPERATIONS),
    derandomize=True,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
def test_every_answer_is_as_the_document_says(case, url):
    case.call_and_validate(base_url=url, headers=HEADERS, checks=CHECKS)
