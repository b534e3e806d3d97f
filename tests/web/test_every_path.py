"""Rules of the guard that hold for every path of the server, its pages and files too."""

import re
import socket

import pytest
from starlette.routing import Route

from roocontext.web.app import routes
from support.web_server import TOKEN
from web.conftest import MOST_BYTES

pytestmark = pytest.mark.usefixtures("nothing_changes")

BEARER = {"authorization": f"Bearer {TOKEN}"}
VALUES = {"seq": "1", "id": "s", "str": "page.js", "path": "page.js"}


def path_of(route: Route) -> str:
    return re.sub(r"\{\w+:?(\w*)\}", lambda found: VALUES[found[1] or "str"], route.path)


PATHS = [
    (method, path_of(route))
    for route in routes()
    if isinstance(route, Route)
    for method in sorted(route.methods or {"GET"})
]
METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
every_path = pytest.mark.parametrize("path", sorted({path for _, path in PATHS}))


def test_paths_are_those_of_the_pages_and_of_the_api():
    paths = {path for _, path in PATHS}
    assert {"/", "/s/s", "/healthz", "/api/v1/openapi.json", "/api/v1/sessions/s/undo"} <= paths


@every_path
def test_rebound_name_is_misdirected_whatever_is_asked(guarded, path):
    for method in METHODS:
        own, name = f":{guarded.port}", "evil.test"
        for host in (f"{name}{own}", name, f"127.0.0.1.{name}{own}"):
            # After rebinding, Origin equals Host.
            headers = BEARER | {"host": host, "origin": f"http://{host}"}
            answer = guarded.raw(method, path, headers)
            assert answer.status == 421, (method, host)
            assert "set-cookie" not in answer.headers


@every_path
def test_change_from_another_site_is_forbidden(guarded, path):
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        sites = (("cross-site", "navigate"), ("same-site", "cors"))
        for headers in (
            *({"origin": it} for it in ("http://evil.test", "null", f"https://{guarded.host}")),
            *({"sec-fetch-site": site, "sec-fetch-mode": mode} for site, mode in sites),
        ):
            # As a form sends it, which needs no preflight.
            form = {"content-type": "application/x-www-form-urlencoded"}
            answer = guarded.raw(method, path, BEARER | form | headers, b"a=1")
            assert answer.status == 403, (method, headers)
            assert not [name for name in answer.headers if name.startswith("access-control")]


@every_path
def test_body_that_is_declared_too_large_is_not_read(guarded, path):
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
        answer = guarded.raw(method, path, BEARER | {"content-length": str(MOST_BYTES + 1)})
        assert (answer.status, answer.json["limit"]) == (413, MOST_BYTES), method


@every_path
def test_body_without_a_length_is_read_up_to_the_limit(guarded, path):
    with socket.create_connection(("127.0.0.1", guarded.port), timeout=30) as connection:
        head = f"POST {path} HTTP/1.1\r\nHost: {guarded.host}\r\nAuthorization: Bearer {TOKEN}\r\n"
        kind = "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n"
        piece = "1000\r\n" + " " * 0x1000 + "\r\n"
        connection.sendall(f"{head}{kind}If-Match: *\r\n\r\n{piece * 4}".encode())
        status = int(connection.makefile("rb").readline().split()[1])
    # The rest of the body never comes: only a server that waits for it would not answer.
    assert status in {400, 404, 405, 413}


@every_path
def test_without_the_token_nothing_is_answered(guarded, path):
    if path != "/healthz":
        assert {guarded.raw(method, path).status for method in METHODS} == {401}
