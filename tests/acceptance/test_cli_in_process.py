"""A program that calls commands of the command line in its own process, as the example's agent."""

import _thread
import io
import logging
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from roocontext import Store
from roocontext.cli.app import run
from support.empty_files import empty_file


def test_command_leaves_the_process_as_it_was(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its errors are lines on stderr, and the library's warnings reach the program afterwards."""
    database = empty_file(tmp_path / "store.db")
    with Store.open(database) as store, redirect_stdout(io.StringIO()) as shown:
        chat = store.create()
        chat.append("user", "Find the needle.")
        assert run(["search", "needle", "--session", chat.id, "--db", database]) == 0
        assert run(["uncover", chat.id, "1", "--db", database]) == 4
        assert run(["nonsense"]) == 2
        chat.append("user", "And the next one.")
    assert "Find the needle." in shown.getvalue()
    assert capsys.readouterr().err.count("roocontext: ") == 2
    logging.getLogger("roocontext.context").warning("It is full.")
    assert caplog.messages == ["It is full."]


class InterruptedReader(io.StringIO):
    """Takes output, and interrupts the process once it has read a text."""

    def write(self, text: str) -> int:
        if "Follow me." in text:
            _thread.interrupt_main()
        return super().write(text)


def test_interrupt_in_a_called_command_is_raised(tmp_path: Path) -> None:
    database = empty_file(tmp_path / "store.db")
    with Store.open(database) as store:
        chat = store.create()
        chat.append("user", "Follow me.")
        with redirect_stdout(InterruptedReader()), pytest.raises(KeyboardInterrupt):
            run(["audit", chat.id, "--follow", "--db", database])
        chat.append("user", "And the next one.")
        assert chat.stats().messages == 2
