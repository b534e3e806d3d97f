"""The example's coding agent: killed at any moment it continues, and its commands do what they say.

It runs as a process of its own. The models are servers, and refuse what providers refuse.
"""

import ast
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from roocontext import Session, Store
from support.agent_process import AgentProcess, preloaded_agent, wait_until
from support.empty_files import empty_file
from support.fake_models import ModelsServer
from support.fake_provider import Answer, Exchange, Hang, ModelServer, Refused, too_long

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "coding_agent"


@dataclass(frozen=True)
class Scripted:
    """The replies of the example's scripted model."""

    def send(self, exchange: Exchange) -> None:
        exchange.stream(events(exchange))


def events(exchange: Exchange) -> list[dict[str, Any]]:
    import scripted_model  # noqa: PLC0415 - on the path in these tests only

    return list(scripted_model.events(exchange.asked.body, len(exchange.model.requests)))


@pytest.fixture(autouse=True)
def example(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The example's modules can be imported, and are gone after the test."""
    names = {"scripted_model", *(path.stem for path in EXAMPLE.glob("*.py"))}
    kept = {name: sys.modules.pop(name) for name in names - {"__main__"} if name in sys.modules}
    monkeypatch.syspath_prepend(EXAMPLE.parent)
    monkeypatch.syspath_prepend(EXAMPLE)
    yield
    for name in names - {"__main__"}:
        sys.modules.pop(name, None)
    sys.modules.update(kept)


@pytest.fixture(scope="module")
def process() -> Iterator[tuple["subprocess.Popen[str]", str]]:
    with preloaded_agent() as started:
        yield started


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with ModelServer(otherwise=Scripted()) as server:
        yield server


@pytest.fixture
def agent(process: Any, model: ModelServer, tmp_path: Path) -> AgentProcess:
    made = AgentProcess(process[0], tmp_path / "work", empty_file(tmp_path / "store.db"))
    made.env |= {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": "none"}
    return made


@pytest.fixture
def tool(tmp_path: Path) -> Iterator[Path]:
    """A program that notes its process id and hangs; `run sh ../tool.sh` runs it."""
    started = tmp_path / "started.txt"
    started.touch()
    (tmp_path / "tool.sh").write_text(f"echo $$ >> {started}\nexec sleep 60\n")
    yield started
    for pid in started.read_text().split():
        with suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)


@contextmanager
def recorded(store: str) -> Iterator[Session]:
    with Store.open(store) as opened:
        chat = opened.session(opened.sessions()[0].session_id)
        assert chat.verify().ok
        yield chat


def messages(store: str) -> list[tuple[str, str]]:
    """Every message that was ever recorded, with its role."""
    with recorded(store) as chat:
        return [(it.entry.role, str(it.content)) for it in chat.audit() if it.kind == "message"]


@pytest.mark.parametrize("engine", ["file", "postgres"])
def test_agent_killed_at_any_moment_continues_where_it_was(agent, model, tool, engine, request):
    if engine == "postgres":
        agent.store = request.getfixturevalue("postgres_url")
    model.script += [Hang(begun=True), Scripted(), Hang()]

    agent.begin("run sh ../tool.sh")
    model.wait_for(1)
    agent.kill()  # in the middle of a reply
    agent.begin()
    wait_until(tool.read_text)
    agent.kill()  # in the middle of a tool
    agent.begin()
    model.wait_for(3)
    agent.kill()  # right after the tool's result was recorded
    shown = agent()

    assert "All of it is done." in shown
    assert len(tool.read_text().split()) == 1
    asked, called, answered, done = messages(agent.store)
    assert asked == ("user", "run sh ../tool.sh")
    assert "'run'" in called[1]
    assert "This call was interrupted." in answered[1]
    assert "All of it is done." in done[1]
    assert model.refused == 0
    assert [len(it.body["messages"]) for it in model.requests] == [1, 1, 3, 3]


def test_new_prompt_closes_the_waiting_calls(agent, model):
    shown = agent("run ls", "/rewind 4", "Do not run it.")
    assert "Enter continues > " in shown
    *_, last = model.requests[2].body["messages"]
    assert "This call was interrupted." in str(last["content"][0])
    assert last["content"][1]["text"] == "Do not run it."


def test_prompt_that_is_too_long_is_cut_and_sent_again(agent, model):
    agent(f"write a.txt {'one two three ' * 400}; read a.txt; read a.txt; read a.txt")
    model.script += [too_long(9_000, 8_000)]
    before = len(model.requests)
    shown = agent("read a.txt")
    refused, again = (str(model.requests[number].body) for number in (before, before + 1))
    assert re.search(r"^\[condensed: \d+ to \d+ tokens\]$", shown, re.MULTILINE)
    assert len(again) < len(refused)
    assert shown.count("All of it is done.") == 1
    assert model.refused == 0
    assert sum("one two three" in content for _, content in messages(agent.store)) >= 5


def test_agent_condenses_and_uncovers(agent, model):
    agent.env["MODEL_MAX_CONTEXT_TOKENS"] = "16000"
    shown = agent(*[f"write {name}.txt {f'{name} ' * 4_000}" for name in "ab"], "read a.txt")
    assert shown.count("All of it is done.") == 3
    assert "[condensed: " in shown
    assert model.refused == 0
    *_, summary = re.findall(r"^ +(\d+) \S+ +summary ", agent("/history"), re.MULTILINE)
    agent("/rewind", "/undo")
    assert re.search(r" rewind +to 14 ", agent("/history"))  # not to before the summary
    shown = agent("/uncover", "/uncover 1", "/uncover x", "/uncover", "/uncover", "/context")
    assert f"Uncovered entry {summary} of " in shown
    assert "Entry 1 is a note" in shown
    assert "Nothing is hidden." in shown
    assert "of 16,000 tokens by o200k_base*1.5. Before the next request: " in shown
    assert len(messages(agent.store)) == 12
    with recorded(agent.store) as chat:
        assert len(chat.view().messages) == 12


def test_rewind_and_undo_move_the_conversation_and_the_files(agent):
    def files() -> dict[str, str]:
        return {path.name: path.read_text() for path in agent.folder.iterdir()}

    one, two = {"a.txt": "one"}, {"a.txt": "two", "b.txt": "two"}
    agent("write a.txt one", "write a.txt two; write b.txt two")
    assert files() == two
    for command, left in (
        ("/rewind", one),
        ("/undo", two),
        ("/rewind 2", {}),
        ("/rewind 7", one),
        ("/rewind", {}),
        ("/undo", one),
        ("/rewind 999", one),
        ("/rewind six", one),
    ):
        shown = agent(command)
        assert files() == left, command
    assert "six" in shown
    assert "taken back by " in agent("/history")


def test_files_that_were_not_moved_yet_are_moved_at_the_next_start(agent):
    agent("write a.txt one", "write a.txt two")
    with Store.open(agent.store) as store:
        store.session(store.sessions()[0].session_id).rewind(to=7)
    assert (agent.folder / "a.txt").read_text() == "two"
    agent()
    assert (agent.folder / "a.txt").read_text() == "one"
    (agent.folder / "a.txt").write_text("by hand")
    agent("write b.txt two")
    assert (agent.folder / "a.txt").read_text() == "by hand"


def test_files_that_cannot_be_moved_are_reported_once(agent):
    agent("write a.txt one")
    with Store.open(agent.store) as store:
        store.session(store.sessions()[0].session_id).rewind(to=2)
    shutil.rmtree(agent.folder.with_name("work.agent") / "checkpoints.git")
    shown = agent("write a.txt two")
    assert shown.count("CalledProcessError: ") == 1
    assert shown.count("All of it is done.") == 1


def test_fork_is_rewound_with_its_files(agent):
    agent("write a.txt one", "write a.txt two")
    shown = agent("/fork", "/rewind 7", "write b.txt three", "/history")
    assert (agent.folder / "a.txt").read_text() == "one"
    origin, _ = re.findall(r"^(?:> )?Session (\w+)", shown, re.MULTILINE)
    with recorded(agent.store) as fork:
        assert len(fork.view().messages) == 8
        assert fork.id != origin
    (agent.folder / "a.txt").write_text("by hand")
    shown = agent("/fork", options=("--session", origin))
    assert (agent.folder / "a.txt").read_text() == "by hand"
    assert shown.startswith(f"Session {origin}, ")
    assert agent(options=("--session", "new")).startswith("Session ")
    with Store.open(agent.store) as store:
        assert [info.messages for info in store.sessions()] == [0, 8, 12, 8]


def test_search_finds_what_was_rewound(agent):
    agent("write a.txt a needle in it", "/rewind")
    shown = agent("/search needle", "/search hay", "/nothing")
    assert re.search(r"^> \w+ 2  user, .+\n  write a.txt a needle in it$", shown, re.MULTILINE)
    assert "No message has 'hay'." in shown
    assert "/rewind [N]    go back" in shown


def test_another_provider_continues_the_session(agent, model):
    with ModelsServer() as other:
        agent.env |= {"OPENAI_BASE_URL": f"{other.url}/v1", "OPENAI_API_KEY": "none"}
        shown = agent("write a.txt one", "/model openai:gpt-5", "Look.")
        assert "There are two files." in shown
        assert agent("Look again.").startswith("Session ")
        assert [it.body["model"] for it in other.asked] == ["gpt-5"] * 4
        del agent.env["OPENAI_API_KEY"]
        assert "OpenAIError: " in agent.refused()
        shown = agent("read a.txt", "/model claude-opus-5", options=("--model", "claude-opus-5"))
    assert shown.count(", claude-opus-5.") == 2
    assert "There are two files." in str(model.requests[-1].body)
    assert model.refused == 0


def test_replies_cannot_act_on_the_terminal(agent, model):
    model.script += [Answer("a\x1b[2Jb\x9b3Jc")]
    assert "a[2Jb3Jc" in agent("Hello.")


def test_error_of_the_provider_ends_no_session(agent, model):
    model.script += [Refused(403, "permission_error", "Not today.")]
    shown = agent("write a.txt one", "")
    assert "Not today." in shown
    assert "All of it is done." in shown
    assert [role for role, _ in messages(agent.store)] == ["user", "assistant"] * 2
    shown = agent("/model openai:gpt-5", "/model", "Hello.")
    assert "OpenAIError: " in shown
    assert ", claude-opus-5." in shown
    assert "All of it is done." in shown
    del agent.env["ANTHROPIC_API_KEY"]
    assert "Could not resolve authentication method" in agent("Hello.")


@dataclass(frozen=True)
class CutOff(Scripted):
    """The same reply, but its end did not fit into the answer."""

    def send(self, exchange: Exchange) -> None:
        made = events(exchange)
        made[-2]["delta"]["stop_reason"] = "max_tokens"
        exchange.stream(made)


def test_call_that_was_cut_off_is_not_executed(agent, model):
    model.script += [CutOff()]
    agent("write a.txt one; write b.txt two")
    assert [path.name for path in agent.folder.iterdir()] == ["b.txt"]
    assert "cut off" in messages(agent.store)[2][1]


@pytest.fixture
def begun(model: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """An agent whose program may have run already, and the questions that it asks the person."""
    monkeypatch.setenv("ANTHROPIC_BASE_URL", model.url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    from agent import Agent  # noqa: PLC0415 - on the path in these tests only
    from workspace import Workspace  # noqa: PLC0415

    workspace = Workspace(tmp_path / "work")
    with Store.open(empty_file(tmp_path / "store.db")) as store:
        chat = store.create()
        chat.append("user", "run touch ran")
        run = {"type": "tool_use", "name": "run", "input": {"command": ["touch", "ran"]}}
        content = [{**run, "id": "toolu_1_0"}]
        reply = {"type": "message", "role": "assistant", "id": "msg_1", "content": content}
        chat.record({**reply, "model": "claude-opus-5", "stop_reason": "tool_use"})

        def made(answer: bool, *, trusted: bool) -> tuple[Session, list[str]]:
            asked: list[str] = []
            person = lambda question: bool(asked.append(question) or answer)  # noqa: E731
            monkeypatch.setattr("agent.confirm", person)
            agent = Agent(store, workspace, trusted=trusted)
            agent.open(chat)
            agent.go_on()
            return chat, asked

        yield made


@pytest.mark.parametrize("answer", [True, False])
@pytest.mark.parametrize("is_begun", [True, False])
def test_program_runs_only_after_confirmation(begun, tmp_path, answer, is_begun):
    """A program runs only if the person agrees; so does one that was interrupted, again."""
    with recorded(str(tmp_path / "store.db")) as chat:
        if is_begun:
            (call,) = chat.pending()
            chat.begin(call)
    chat, asked = begun(answer, trusted=is_begun)
    assert asked == ["It was begun, and may have run. Again?" if is_begun else "Run it?"]
    assert (tmp_path / "work" / "ran").exists() == answer
    (result,) = chat.view().messages[2].content
    assert bool(result.get("is_error")) != answer


def test_confirmation_shows_the_whole_program(begun, capsys, tmp_path):
    """Also if it is long: what is asked for may be at its end."""
    long = ["echo", "x" * 300, "the end"]
    with recorded(str(tmp_path / "store.db")) as chat:
        chat.rewind(1)
        call = {"type": "tool_use", "id": "toolu_1_0", "name": "run", "input": {"command": long}}
        chat.append("assistant", [call])
    begun(False, trusted=False)
    assert f"  run {json.dumps({'command': long})}\n" in capsys.readouterr().out


@pytest.fixture
def place(tmp_path: Path) -> Any:
    """A folder with files, links and special files, in another one."""
    from workspace import Workspace  # noqa: PLC0415 - on the path in these tests only

    made = Workspace(tmp_path / "work")
    (tmp_path / "secret.txt").write_text("secret")
    (made.folder / "a.txt").write_bytes(b"one\r\ntwo\r\n")
    (made.folder / "link").symlink_to(tmp_path / "secret.txt")
    (made.folder / "up").symlink_to(tmp_path)
    (made.folder / "loop").symlink_to("loop")
    (made.folder / "folder").mkdir()
    os.mkfifo(made.folder / "pipe")
    return made


HOSTILE = [
    *("../secret.txt", "/etc/passwd", "link", "up/secret.txt", "folder/../../secret.txt"),
    *("loop", "", ".", "folder", "pipe", "a.txt/b", "nul\0", "x" * 5_000, "\ud800"),
    *(".git/config", "folder/.GIT/hooks/pre-commit", "../work.agent/sessions.db", None, 5),
]


@pytest.mark.parametrize("path", HOSTILE)
def test_paths_outside_the_folder_are_refused(place, tmp_path, path):
    for name, given in (
        ("read", {}),
        ("write", {"text": "changed"}),
        ("edit", {"old": "secret", "new": "changed"}),
    ):
        output, is_error = place.call(name, {"path": path, **given})
        assert is_error, (name, output)
        assert "secret\n" not in output
    assert (tmp_path / "secret.txt").read_text() == "secret"


def test_tools_describe_their_errors_to_the_model(place):
    from workspace import LIMIT  # noqa: PLC0415 - on the path in these tests only

    for name, given in (
        ("edit", {"path": "a.txt", "old": "o", "new": "0"}),
        ("edit", {"path": "a.txt", "old": "", "new": "0"}),
        ("edit", {"path": "a.txt"}),
        ("read", {"path": "missing.txt"}),
        ("read", ["a.txt"]),
        ("run", {"command": []}),
        ("run", {"command": ["no-such-program"]}),
        ("run", {"command": [1]}),
        ("delete", {}),
    ):
        output, is_error = place.call(name, given)
        assert is_error, (name, output)
    edited = {"path": "a.txt", "old": "two", "new": "2"}
    assert place.call("edit", edited) == ("a.txt has 8 characters now.", False)
    assert (place.folder / "a.txt").read_bytes() == b"one\r\n2\r\n"
    assert place.call("read", {"path": "a.txt", "first_line": 2}) == ("2\r\n", False)
    assert place.call("search", {"text": "n"}) == ("a.txt:1:one\r\n\n[exit code 0]", False)
    assert place.call("search", {"text": "secret"}) == ("\n[exit code 1]", False)  # through links
    (place.folder / "long.txt").write_text("x" * (LIMIT + 1))
    output, _ = place.call("read", {"path": "long.txt"})
    assert output == "x" * LIMIT + "\n[1 more characters]"


def test_program_is_bounded_in_time_and_output(place, monkeypatch):
    """In time and output. It sees no API key, gets no input, and leaves nothing running."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a key")
    import workspace  # noqa: PLC0415 - on the path in these tests only

    def ran(script: str) -> str:
        output, is_error = place.call("run", {"command": ["sh", "-c", script]})
        assert not is_error
        return output

    assert "a key" not in ran("env")
    assert ran("sleep 60 & echo it holds the output") == "it holds the output\n\n[exit code 0]"
    assert ran("cat; pwd; echo wrong >&2; exit 3") == f"{place.folder}\nwrong\n\n[exit code 3]"
    assert len(ran("head -c 1000000 /dev/zero")) < workspace.LIMIT + 100
    reader = os.open(place.folder / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert ran("exec 3> pipe; sleep 60 > /dev/null 2>&1 &") == "\n[exit code 0]"
        wait_until(lambda: is_closed(reader))
    finally:
        os.close(reader)
    monkeypatch.setattr(workspace, "TIMEOUT", 0.2)
    for endless in ("exec sleep 60", "exec yes"):
        assert ran(endless).endswith("[killed after 0.2 seconds]")


def is_closed(reader: int) -> bool:
    """True if no process can write to a pipe any more."""
    try:
        return os.read(reader, 1) == b""
    except BlockingIOError:
        return False


def test_folder_with_another_repository_is_kept(place):
    """A file that git cannot add stops no checkpoint; the person's repository is untouched."""
    own = ["git", "-C", str(place.folder)]
    subprocess.run([*own, "init", "--quiet"], check=True)
    subprocess.run([*own, "init", "--quiet", "folder"], check=True)
    first = place.commit()
    (place.folder / "a.txt").write_text("changed")
    (place.state / "checkpoints.git" / "index.lock").touch()
    place = type(place)(place.folder)
    place.restore(first)
    assert (place.folder / "a.txt").read_bytes() == b"one\r\ntwo\r\n"
    assert (place.folder / ".git").is_dir()
    assert not subprocess.check_output([*own, "log", "--all", "--oneline"])


def test_scripted_model_needs_no_key(process):
    _, shown = process
    written, checked, corrected = "double.py has 43 ", "AssertionError: 9", "| All is well."
    assert shown.index(written) < shown.index(checked) < shown.index(corrected)
    assert "  | check.py\n" in shown
    assert re.search(r"^ +2 \S+ user +visible +Double a number\.$", shown, re.MULTILINE)


def test_documentation_shows_the_code():
    page = (ROOT / "docs" / "guide" / "coding-agent.md").read_text()
    (shown,) = re.findall(r"^```python\n(def .*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert textwrap.indent(shown, " " * 4) in (EXAMPLE / "agent.py").read_text()


def test_readme_and_the_documentation_have_every_command():
    document = ast.get_docstring(ast.parse((EXAMPLE / "__main__.py").read_text())) or ""
    commands = set(re.findall(r"^(/\w+)", document, re.MULTILINE))
    assert len(commands) == 8
    for page in (EXAMPLE / "README.md", ROOT / "docs" / "guide" / "coding-agent.md"):
        listed = set(re.findall(r"`(/\w+)", page.read_text()))
        assert commands - listed == set(), page


def test_agent_is_short():
    """Under 300 lines, as `wc -l` counts them."""
    assert sum(len(path.read_text().splitlines()) for path in EXAMPLE.glob("*.py")) < 300
