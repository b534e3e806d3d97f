"""The MCP server, asked by the SDK's own client: in this process, by stdio and by HTTP."""

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from mcp import Client, MCPError, StdioServerParameters, stdio_client

from roocontext import Plan, Store
from roocontext.cli.exit_codes import Code
from roocontext.mcp.server import SessionServer
from roocontext.mcp.tools import answer_text, cut_texts
from roocontext.reports.document import as_json
from roocontext.reports.history import audit_rows, effective_history
from roocontext.reports.why import why
from support.cli_process import refused
from support.dialogue import fill

HOSTILE = '../../etc/passwd?id=x#y%2F {"jsonrpc"} \u2028 .. \x1b[31m'
NASTY = 'a\x00b \ud800 \x1b[31m \u2028 日本 \n{"jsonrpc": "2.0", "id": 1, "result": {}}\n'

NOBODY = "SessionNotFound (not_found): There is no session 'nobody'."
READING = {"search_history", "read_history", "list_sessions", "show_session", "why_hidden"}
WRITING = {"append", "rewind"}

on_a_file = pytest.mark.parametrize("database", ["file"], indirect=True)


@pytest.fixture
def store(database: str) -> Iterator[Store]:
    with Store.open(database) as store:
        chat = store.create("parser", title="fix the parser")
        seqs = fill(chat, 6)
        chat.commit(Plan.condense(chat.view(), seqs[:3], "S"))
        chat.rewind(6)
        yield store


Talk = Callable[[Client], Awaitable[Any]]


def talk(store: Store, said: Talk, *, allow_write: bool = False) -> Any:
    async def run() -> Any:
        async with Client(SessionServer(store, allow_write=allow_write)) as client:
            return await said(client)

    return asyncio.run(run())


def ask(store: Store, tool: str, *, allow_write: bool = False, **given: Any) -> Any:
    """The document that a tool answers with, or the text of its error."""

    async def call(client: Client) -> Any:
        return await client.call_tool(tool, given)

    answer = talk(store, call, allow_write=allow_write)
    (content,) = answer.content
    return content.text if answer.is_error else json.loads(content.text)


def test_answers_are_the_documents_of_the_command_line(store):
    chat = store.session("parser")
    rows = [as_json(row) for row in audit_rows(chat)]
    assert ask(store, "read_history", session="pars") == {"entries": rows, "next": None}
    page = ask(store, "read_history", session="last", first=3, limit=2)
    assert page["entries"] == rows[2:4]
    rest = ask(store, "read_history", session="last", after=page["next"])
    assert rest == {"entries": rows[4:], "next": None}
    shown = as_json(effective_history(chat, None))
    assert ask(store, "show_session", session="parser") == shown
    newest = ask(store, "show_session", session="parser", limit=2)
    assert newest == {**shown, "messages": shown["messages"][-2:]}
    assert ask(store, "why_hidden", session="parser", seq=7) == as_json(why(chat, 7))
    (row,) = ask(store, "list_sessions")["sessions"]
    assert (row["session_id"], row["title"]) == ("parser", "fix the parser")
    assert ask(store, "list_sessions", text="lexer")["sessions"] == []
    hits = ask(store, "search_history", query='"message 5"', session="parser")["hits"]
    assert [(hit["session_id"], hit["seq"], hit["hidden_by"]) for hit in hits] == [("parser", 7, 9)]


@on_a_file
def test_no_tool_writes_unless_it_is_allowed(store):
    async def tools(client: Client) -> dict[str, Any]:
        return {tool.name: tool.annotations for tool in (await client.list_tools()).tools}

    reading, all_ = talk(store, tools), talk(store, tools, allow_write=True)
    assert reading.keys() == READING
    assert all_.keys() == READING | WRITING
    assert all(reading[name].read_only_hint for name in READING)
    assert not any(all_[name].read_only_hint for name in WRITING)
    head = store.session("parser").head()
    assert "Unknown tool" in ask(store, "append", session="parser", content="x")
    assert store.session("parser").head() == head


def test_messages_are_appended_and_sessions_rewound(store):
    chat = store.session("parser")
    said = {"session": "parser", "content": "hello", "client_id": "c1"}
    receipt = ask(store, "append", **said, allow_write=True)
    assert (receipt["seq"], receipt["new"]) == (chat.head_seq(), True)
    assert not ask(store, "append", **said, allow_write=True)["new"]
    assert chat.view().messages[-1].content == "hello"
    back = {"session": "parser", "to": 4}
    planned = ask(store, "rewind", **back, dry_run=True, allow_write=True)
    assert (planned["dry_run"], chat.head_seq()) == (True, receipt["seq"])
    done = ask(store, "rewind", **back, expected_seq=receipt["seq"], allow_write=True)
    assert (done["to"], chat.view().messages[-1].seq) == (4, 4)
    error = ask(store, "rewind", **back, expected_seq=1, allow_write=True)
    assert "VersionConflict" in error


@on_a_file
@pytest.mark.parametrize(
    "content",
    [
        "[]",
        '{"a": 1}',
        "null",
        "12",
        '[{"type": "text", "text": "x"}]',
        [{"type": "text", "text": "x"}],
    ],
)
def test_appended_text_that_is_json_stays_a_text(store, content):
    ask(store, "append", session="parser", content=content, allow_write=True)
    assert store.session("parser").view().messages[-1].content == content


@on_a_file
@pytest.mark.parametrize(
    ("tool", "given", "error"),
    [
        ("show_session", {"session": "nobody"}, NOBODY),
        ("show_session", {"session": "../parser"}, "SessionNotFound"),
        ("why_hidden", {"session": "parser", "seq": 99}, "MessageNotFound"),
        ("why_hidden", {"session": "parser", "seq": 0}, "greater than or equal to 1"),
        ("read_history", {"session": "parser", "limit": 10_000}, "less than or equal to 200"),
        ("read_history", {"session": ""}, "InvalidIdentifier"),
        ("search_history", {"query": "x", "among": "none"}, "Input should be"),
        ("search_history", {"query": "x", "after": "x"}, "InvalidOption"),
        ("search_history", {"query": "x", "session": "nobody"}, "SessionNotFound"),
        ("append", {"session": "parser", "content": "x", "role": "nobody"}, "InvalidMessage"),
        ("append", {"session": "parser", "content": {"message 1": "message 1"}}, "valid string"),
        ("append", {"session": "parser", "content": "message 1", "role": ["message 1"]}, "role: "),
        ("append", {"session": "parser", "content": "message 1", "expected_seq": "x"}, "InvalidOp"),
        ("append", {"session": "parser"}, "InvalidOption (usage): Wrong arguments: content"),
    ],
)
def test_errors_have_names_and_no_content(store, tool, given, error):
    said = ask(store, tool, **given, allow_write=True)
    assert error in said
    assert "message 1" not in said


@on_a_file
def test_hostile_content_does_not_break_the_protocol(store):
    chat = store.create(HOSTILE, title=HOSTILE)
    deep: Any = NASTY
    for _ in range(490):
        deep = [deep]
    chat.append("user", NASTY)
    chat.append("user", [{"type": NASTY, NASTY: NASTY, "deep": deep}])
    rows = ask(store, "read_history", session=f"={HOSTILE}")["entries"]
    assert [row["content"] for row in rows[1:]] == [row.content for row in [*chat.audit()][1:]]

    async def resources(client: Client) -> list[Any]:
        listed = (await client.list_resources()).resources
        return [(one, (await client.read_resource(one.uri)).contents) for one in listed]

    read = talk(store, resources)
    assert {one.name for one, _ in read} == {"parser", HOSTILE}
    for one, (content,) in read:
        assert one.uri.isascii()
        assert json.loads(content.text)["session_id"] == one.name


@on_a_file
def test_resource_of_no_session_is_refused(store):
    async def read(client: Client) -> None:
        for name, words in (("nobody", "There is no session 'nobody'"), ("%00", "holds NUL")):
            with pytest.raises(MCPError, match=words):
                await client.read_resource(f"roocontext://session?id={name}")

    talk(store, read)


def test_server_of_an_owner_shows_no_others(store, database):
    with Store.open(database, owner="mallory") as mallory:
        for tool, given in (
            ("show_session", {}),
            ("read_history", {}),
            ("why_hidden", {"seq": 1}),
            ("search_history", {"query": "message"}),
            ("append", {"content": "x"}),
            ("rewind", {"to": 1}),
        ):
            theirs, missing = (
                ask(mallory, tool, session=name, **given, allow_write=True)
                for name in ("parser", "nobody")
            )
            assert theirs.replace("parser", "nobody") == missing
            assert NOBODY in missing
        assert ask(mallory, "search_history", query="message")["hits"] == []
        assert ask(mallory, "list_sessions")["sessions"] == []
        assert "SessionNotFound" in ask(mallory, "show_session", session="last")
        assert talk(mallory, resources) == []


async def resources(client: Client) -> list[str]:
    return [one.name for one in (await client.list_resources()).resources]


@on_a_file
def test_long_texts_are_cut_in_the_middle(store):
    store.create("long").append("user", "a" * 5_000 + "b" * 5_000)
    (row,) = ask(store, "read_history", session="long", longest=100)["entries"]
    assert row["content"] == f"{'a' * 50}\n[9,900 characters left out]\n{'b' * 50}"
    (whole,) = ask(store, "read_history", session="long", longest=10_000)["entries"]
    assert len(whole["content"]) == 10_000


def test_texts_are_cut_at_any_depth():
    assert cut_texts([{"a": ["x" * 9, 1, None, True]}], 8) == [
        {"a": ["xxxx\n[1 characters left out]\nxxxx", 1, None, True]}
    ]
    assert answer_text({"a": "\ud83d\ude00 \udfff 😀"}, 100) == '{"a": "\\ud83d\\ude00 \\udfff 😀"}'


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "roocontext", "mcp", *arguments]


async def serves(client: Client) -> None:
    """A client lists the tools, reads, and sees what is written meanwhile."""
    tools = (await client.list_tools()).tools
    assert {tool.name for tool in tools} == READING
    before = await client.call_tool("read_history", {"session": "parser"})
    assert "message 5" in before.content[0].text
    nasty = await client.call_tool("read_history", {"session": f"={HOSTILE}"})
    assert json.loads(nasty.content[0].text)["entries"][-1]["content"] == NASTY
    listed = (await client.list_resources()).resources
    (one,) = [resource for resource in listed if resource.name == HOSTILE]
    assert json.loads((await client.read_resource(one.uri)).contents[0].text)["title"] == HOSTILE


@on_a_file
def test_server_answers_by_stdio(store, database):
    program, *arguments = command("--db", database)
    parameters = StdioServerParameters(command=program, args=arguments)

    store.create(HOSTILE, title=HOSTILE).append("user", NASTY)

    async def run() -> str:
        async with Client(stdio_client(parameters)) as client:
            await serves(client)
            store.session("parser").append("user", "written meanwhile")
            after = await client.call_tool("show_session", {"session": "parser"})
            return after.content[0].text

    assert "written meanwhile" in asyncio.run(run())


@contextmanager
def by_http(*arguments: str, **env: str) -> Iterator[int]:
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with subprocess.Popen(
        command("--http", str(port), *arguments),
        env={**os.environ, **env},
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        try:
            _wait_for(port, server)
            yield port
        finally:
            server.terminate()
            server.communicate()


@on_a_file
def test_server_answers_by_http_on_loopback(store, database):
    store.create(HOSTILE, title=HOSTILE).append("user", NASTY)
    with by_http(ROOCONTEXT_DB=database) as port:
        asyncio.run(_by_http(f"http://127.0.0.1:{port}/mcp"))
        assert _answer(port, "evil.example").startswith("HTTP/1.1 421")
        assert _answer(port, "127.0.0.1", "http://evil.example").startswith("HTTP/1.1 403")


@on_a_file
def test_http_server_with_a_token_answers_only_who_sends_it(store, database):
    token = "t" * 40
    with by_http("--db", database, ROOCONTEXT_TOKEN=token) as port:
        for wrong in ("", "Authorization: Bearer wrong", f"Authorization: {token}"):
            assert _answer(port, "127.0.0.1", header=wrong).startswith("HTTP/1.1 401")
        right = f"Authorization: Bearer {token}"
        assert not _answer(port, "127.0.0.1", header=right).startswith("HTTP/1.1 401")


@on_a_file
def test_short_token_is_refused(run):
    done = run("mcp", "--http", "1", env={"ROOCONTEXT_TOKEN": "short"})
    refused(done, Code.USAGE, "at least 32 characters")


async def _by_http(url: str) -> None:
    async with Client(url) as client:
        await serves(client)


def _wait_for(port: int, server: "subprocess.Popen[str]") -> None:
    while True:
        with closing(socket.socket()) as probe:
            if not probe.connect_ex(("127.0.0.1", port)):
                return
        assert server.poll() is None
        time.sleep(0.05)


def _answer(port: int, host: str, origin: str = "", header: str = "") -> str:
    """The answer to a request as a browser would send it from another site."""
    lines = [
        "POST /mcp HTTP/1.1",
        f"Host: {host}:{port}",
        "Content-Type: application/json",
        "Accept: application/json, text/event-stream",
        "Content-Length: 2",
        *([f"Origin: {origin}"] if origin else []),
        *([header] if header else []),
    ]
    with closing(socket.create_connection(("127.0.0.1", port))) as asked:
        asked.sendall("\r\n".join([*lines, "", "{}"]).encode())
        return asked.recv(200).decode()
