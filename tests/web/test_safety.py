"""The guard of the server: host names, origins, tokens, cookies, sizes, on a real socket."""

import json
from collections.abc import Iterator

import pytest

from roocontext import Store
from roocontext.web.safety import POLICY, ServerSettings
from support.web_server import TOKEN, WebClient, serving

BEARER = {"authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebClient]:
    with (
        Store.open(tmp_path_factory.mktemp("web") / "store.db") as store,
        serving(store, most_bytes=1000) as client,
    ):
        yield client


class TestHost:
    @pytest.mark.parametrize(
        "host",
        [
            *("evil.test:{port}", "evil.test", "127.0.0.1", "127.0.0.1:1"),
            *("127.0.0.1.evil.test:{port}", "localhost.:{port}", "user@127.0.0.1:{port}"),
            *("127.0.0.1:{port}:{port}", "[::1:{port}", "192.168.0.1:{port}", ""),
        ],
    )
    def test_another_name_is_misdirected(self, client, host):
        answer = client.raw("GET", "/nothing", BEARER | {"host": host.format(port=client.port)})
        assert (answer.status, answer.json["type"]) == (421, "urn:roocontext:host-refused")

    @pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "LOCALHOST", "[::1]"])
    def test_names_of_this_machine_are_answered(self, client, name):
        assert client.raw("GET", "/healthz", {"host": f"{name}:{client.port}"}).status == 200

    def test_public_server_is_reached_by_any_address_and_by_its_name_only(self):
        settings = ServerSettings(host="desk.example", port=80, public=True)
        own = ["10.0.0.7", "10.0.0.7:80", "desk.example", "DESK.example:80", "[fe80::1]:80"]
        assert [settings.is_own(name) for name in own] == [True] * len(own)
        assert not settings.is_own("evil.test:80")


class TestOrigin:
    def test_another_site_does_not_read(self, client):
        for headers in (
            {"origin": "http://127.0.0.1:1"},
            {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"},
            {"sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors"},
        ):
            assert client.raw("GET", "/healthz", BEARER | headers).status == 403

    def test_link_from_another_site_is_a_visit(self, client):
        headers = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
        assert client.raw("GET", "/healthz", headers).status == 200


class TestToken:
    def test_wrong_token_is_refused(self, client):
        for sent in ("Bearer", "Bearer x", f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer \xe9"):
            answer = client.raw("GET", "/nothing", {"authorization": sent})
            named = answer.headers["www-authenticate"]
            assert (answer.status, named) == (401, 'Bearer realm="roocontext"')

    def test_link_is_exchanged_for_a_cookie_and_dropped(self, client):
        answer = client.raw("GET", f"/s/a%2Fb?token={TOKEN}&tab=live")
        assert (answer.status, answer.headers["location"]) == (303, "/s/a%2Fb?tab=live")
        cookie, *flags = answer.headers["set-cookie"].split("; ")
        assert cookie.startswith(f"roocontext-{client.port}=")
        assert TOKEN not in cookie
        assert {"HttpOnly", "SameSite=strict", "Path=/"} <= {*flags}
        assert client.raw("GET", "/nothing", {"cookie": f"other=1; {cookie}"}).status == 404

    def test_redirect_stays_on_this_server(self, client):
        answer = client.raw("GET", f"//evil.test/x?token={TOKEN}")
        assert answer.headers["location"] == "/evil.test/x"

    def test_link_of_an_earlier_start_is_refused(self, client):
        assert client.raw("GET", "/?token=old").status == 401

    def test_change_by_cookie_needs_an_origin(self, client):
        cookie = client.raw("GET", f"/?token={TOKEN}").headers["set-cookie"].split(";")[0]
        assert client.raw("POST", "/nothing", {"cookie": cookie}).status == 403
        headers = {"cookie": cookie, "origin": f"http://{client.host}"}
        assert client.raw("POST", "/nothing", headers).status == 404

    def test_token_is_no_cookie(self, client):
        cookie = f"roocontext-{client.port}={TOKEN}"
        assert client.raw("GET", "/nothing", {"cookie": cookie}).status == 401


class TestHeaders:
    @pytest.mark.parametrize("path", ["/healthz", "/nothing"])
    def test_every_answer_is_private_and_may_not_act(self, client, path):
        headers = client.get(path).headers
        assert headers["content-security-policy"] == POLICY
        assert "unsafe" not in POLICY
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "private, no-cache"
        assert not [name for name in headers if name.startswith("access-control")]
        assert "server" not in headers


class TestRouting:
    def test_path_without_a_route_is_a_problem_document(self, client):
        answer = client.get("/api/v1/nothing", accept="text/html")
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json["status"] == answer.status == 404

    def test_another_method_names_those_that_there_are(self, client):
        answer = client.ask("DELETE", "/healthz")
        assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")

    def test_token_is_no_part_of_an_error(self, client):
        assert TOKEN not in json.dumps(client.raw("GET", f"/nothing?x={TOKEN}", BEARER).json)


def test_settings_do_not_show_the_token(tmp_path):
    assert TOKEN not in repr(ServerSettings(token=TOKEN))
