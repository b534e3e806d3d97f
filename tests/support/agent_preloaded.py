"""A process that has the example's agent loaded, and forks a child for each run of it.

Loading the SDKs takes longer than a run does. To load them, the agent is run once with its scripted
model; what it showed is the first line on stdout, as JSON. Then each line of JSON on stdin is one
run. It is answered by a line with the child's process id, and by one with its exit code.
"""

import gc
import io
import json
import os
import runpy
import sys
import time
import traceback
from contextlib import redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import openai.resources.responses
import psycopg  # noqa: F401

EXAMPLES = Path(__file__).parents[2] / "examples"
EXAMPLE = EXAMPLES / "coding_agent"


def become(order: dict[str, Any]) -> None:
    """Take the files, the environment and the arguments of a run."""
    os.environ.clear()
    os.environ.update(order["env"])
    time.tzset()
    for number, flags in enumerate((os.O_RDONLY, os.O_WRONLY | os.O_APPEND)):
        os.dup2(os.open(order["files"][number], flags), number)
    os.dup2(1, 2)
    sys.stdin, sys.stdout = open(0), open(1, "w")  # noqa: SIM115 - descriptors, for good
    sys.stderr = open(2, "w", buffering=1)  # noqa: SIM115 - likewise
    sys.argv = ["coding_agent", *order["arguments"]]


def run(order: dict[str, Any]) -> int:
    """Fork a child that runs the agent; its exit code."""
    pid = os.fork()
    if pid == 0:
        code = 255
        try:
            become(order)
            runpy.run_path(str(EXAMPLE), run_name="__main__")
            code = 0
        except Exception:  # noqa: BLE001 - whatever it was, the test shows it
            traceback.print_exc()
        finally:  # it may not go on in what is this process's code
            sys.stdout.flush()
            os._exit(code)
    os.write(1, f"{pid}\n".encode())
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def load() -> str:
    """Run the agent once, so that everything that it needs is loaded; what it showed."""
    openai.OpenAI(api_key="none").responses  # noqa: B018 - loads it
    sys.path.insert(0, str(EXAMPLE))  # so that the modules of the example stay loaded
    with TemporaryDirectory() as folder, redirect_stdout(io.StringIO()) as shown:
        sys.argv = ["coding_agent", f"{folder}/work", "--yes"]
        sys.stdin = io.StringIO("Double a number.\nrun ls\n/search number\n/context\n/history\n")
        runpy.run_path(str(EXAMPLES / "scripted_model.py"), run_name="__main__")
    # What is loaded stays: a child that looks through it for garbage would copy every page of it.
    gc.collect()
    gc.freeze()
    return shown.getvalue()


if __name__ == "__main__":
    os.write(1, f"{json.dumps(load())}\n".encode())
    for line in sys.__stdin__:
        os.write(1, f"{run(json.loads(line))}\n".encode())
