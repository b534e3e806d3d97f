"""Two processes that write to one session at once, through an adapter; also the program itself.

Loading the frameworks takes longer than all else. So a process loads them once, and forks two
children for each line of JSON on stdin, which are two writers. It answers with a line: how often
each was refused, and what the framework finds in the session afterwards.
"""

import asyncio
import json
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROUNDS = 8


@contextmanager
def writers() -> Iterator[Any]:
    """Two processes' writers, by the framework and the URL of a store."""
    path = os.pathsep.join(map(str, Path(__file__).parents[1:3]))
    environment = {**os.environ, "PYTHONPATH": path}
    program = subprocess.Popen(
        [sys.executable, "-W", "ignore", __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )

    def write(framework: str, url: str) -> Any:
        program.stdin.write(json.dumps([framework, url]) + "\n")
        program.stdin.flush()
        return json.loads(program.stdout.readline())

    with program:
        yield write
        program.stdin.close()


def written_by(name: str) -> list[str]:
    return [f"{name}-{number}." for number in range(ROUNDS)]


async def take_part(framework: str, url: str, name: str, barrier: Any) -> int:
    """Read and write in rounds, each time after the other has read too; how often it was refused.

    Who is refused reads again, and writes the same.
    """
    refused = 0
    async with await AsyncStore.open(url, durability="normal") as store:
        writer = WRITERS[framework](store)
        for text in written_by(name):
            await writer.read()
            barrier.wait(60)
            while True:
                try:
                    await writer.write(text)
                    break
                except writer.REFUSES:
                    refused += 1
                    await writer.read()
            barrier.wait(60)
    return refused


async def found_in(framework: str, url: str) -> list[str]:
    """The texts that the framework finds in the session."""
    async with await AsyncStore.open(url) as store:
        return await WRITERS[framework](store).texts()


def run(framework: str, url: str) -> dict[str, Any]:
    """Fork both writers, and a third process that reads when they are done."""
    context = multiprocessing.get_context("fork")
    barrier, answers = context.Barrier(2), context.SimpleQueue()

    def answer(work: Coroutine[Any, Any, Any]) -> None:
        try:
            answers.put(asyncio.run(work))
        except BaseException:
            barrier.abort()
            answers.put(None)
            raise

    both = [take_part(framework, url, name, barrier) for name in "ab"]
    for works in (both, [found_in(framework, url)]):
        children = [context.Process(target=answer, args=[work]) for work in works]
        for child in children:
            child.start()
        for child, work in zip(children, works, strict=True):
            child.join()
            work.close()
    return {"refused": [answers.get(), answers.get()], "found": answers.get()}


if __name__ == "__main__":
    from roocontext import AsyncStore
    from support.framework_writers import WRITERS

    for line in sys.stdin:
        sys.stdout.write(json.dumps(run(*json.loads(line))) + "\n")
        sys.stdout.flush()
