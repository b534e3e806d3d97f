"""Every command, word by word: at 40, 80 and 120 columns and in JSON, on both engines.

A scenario is run from a store that is the same to the byte each time; clocks, ids and salts are
given to the commands too, so that nothing is masked. With `PYTHONPATH=tests`, running this file
writes the golden files anew.
"""

import json
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import Any, get_type_hints

import pytest
from pydantic import BaseModel, ConfigDict, TypeAdapter, create_model
from pydantic.json_schema import models_json_schema

from roocontext.cli import app  # noqa: F401 - registers all commands
from roocontext.cli.command_context import described
from roocontext.reports.catalogue import DOCUMENTS
from support import showcase
from support.cli_process import CommandLine, Done, preloaded
from support.examples import everyday

GOLDEN = Path(__file__).with_name("golden_cli")
SCHEMA = GOLDEN / "documents.schema.json"
MODES = {"40": {"COLUMNS": "40"}, "80": {"COLUMNS": "80"}, "120": {"COLUMNS": "120"}, "json": {}}
BLOCKS = json.dumps(
    [
        {"type": "text", "text": "Look: \ud800"},
        {"type": "tool_use", "id": "t1", "name": "run", "input": {"command": "pytest"}},
    ]
)
USAGE = '{"prompt_tokens": 30, "completion_tokens": 4}'
LONG = "long" * 60
OUTPUT = json.dumps(
    [{"type": "tool_result", "tool_use_id": "t1", "content": "1 failed, 41 passed\n" * 60}]
)

LOOKING = [
    "sessions",
    "sessions PARS",
    "sessions --limit 1",
    "sessions --where branch=main",
    "sessions --where branch=other",
    "sessions --parent parser",
    "sessions --older-than 3w",
    "sessions 'drops the last' --model gpt-4o",
    "show parser",
    "show parser --as-of 10",
    "show parser --as-of '2026-01-01 00:12' --model gpt-4o",
    "show empty",
    "show foreign",
    "show evil",
    "audit parser",
    "audit parser --after 14 --full",
    "audit evil --full",
    "audit empty",
    "audit parser --after 27",
    "audit parser -n 3",
    "audit parser --role tool --reverse",
    "show parser --role user -n 2",
    "show parser 5",
    "why parser 5",
    "why parser 20",
    "why parser 16",
    "why parser 1",
    "tree parser",
    "tree empty",
    "diff parser 10",
    "diff parser 15 14",
    "diff parser 14 15",
    "diff parser 27",
    "usage parser",
    "usage parser --all",
    "usage parser --family",
    "usage empty",
    "usage",
    "usage --by model",
    "usage --by session --since 2026-01-02",
    "stats",
    "stats parser",
    "head parser",
    "verify",
    "db current",
    "db history",
    "db upgrade",
]
ACTING: list[tuple[str, str]] = [
    ("append new 'Why does the build fail?' --id fresh --title 'fix the build'", ""),
    (f"append fresh --role assistant --content-json --model gpt-4o --usage '{USAGE}'", BLOCKS),
    ("append fresh --content-json --client-id request-3", OUTPUT),
    ("append fresh --content-json --client-id request-3", OUTPUT),
    ("pin build 5 6", ""),
    ("pin build 6 --remove", ""),
    ("pin build", ""),
    ("title fresh", ""),
    ("title fresh 'fix the build, quickly'", ""),
    ("preview build", ""),
    ("preview build --model gpt4", ""),
    ("preview build --limit 4096", ""),
    ("preview build condense --limit 900", ""),
    ("clear build --limit 900", ""),
    ("clear build --limit 900", ""),
    ("undo build --dry-run", ""),
    ("undo build", ""),
    ("undo build", ""),
    ("condense build --limit 900 --policy default", ""),
    ("truncate build --limit 500", ""),
    ("rewind build --to 12 --dry-run", ""),
    ("rewind build --to 12", ""),
    ("rewind build --to 12", ""),
    ("undo build", ""),
    ("undo build --of 3", ""),
    ("undo empty", ""),
    ("rewind parser --to m3 --before", ""),
    ("rewind parser --ts 5", ""),
    ("fork parser --at 9 --id branch", ""),
    ("redact branch 3 --dry-run", ""),
    ("redact branch 3 --yes", ""),
    ("redact branch 3 --yes", ""),
    ("redact branch 3 --dry-run", ""),
    ("purge branch --dry-run", ""),
    ("purge branch --yes", ""),
    ("purge branch --yes", ""),
    ("purge branch --dry-run", ""),
    ("show branch", ""),
    ("audit build", ""),
    ("tree build", ""),
    ("usage fresh", ""),
    ("audit fresh --full", ""),
    ("truncate build --policy roo --limit 4096", ""),
    ("truncate build --policy roo --limit 4096", ""),
    ("tree build", ""),
    ("uncover build 33", ""),
    ("uncover build 33", ""),
    ("uncover build 23", ""),
    ("uncover build 3", ""),
    ("undo build", ""),
    ("tree build", ""),
    ("audit build", ""),
    (f"fork parser --at 2 --id {LONG}", ""),
    (f"title {LONG} '{'a very long title, ' * 20}'", ""),
    ("sessions --limit 1", ""),
    (f"audit {LONG}", ""),
    ("verify build --rebuild", ""),
    ("purge --older-than 2025-12-01 --dry-run", ""),
    ("purge --older-than 2026-01-01T00:07 --dry-run", ""),
    ("purge --older-than 2026-01-01T00:07", ""),
    ("search parser -n 3", ""),
    ("search 'last token' --session parser --order oldest --context 1", ""),
    ("search failed --role tool --among hidden", ""),
    ("search 'title owned'", ""),
    ("search nothing-of-this", ""),
]  # fmt: skip
LOOKS = [(line, "") for line in LOOKING]
SHOWN_ELSEWHERE = {
    *("archive", "doctor", "demo", "backup", "distribute", "grants", "secure", "import", "export")
}
"""They have screens that differ between engines, or goldens of their own."""
SCENARIO = [*LOOKS, *ACTING]


def played(
    run: CommandLine, mode: str, scenario: Sequence[tuple[str, str]] = SCENARIO
) -> list[tuple[str, Done]]:
    """The scenario, each command with what it did."""
    ends = ["--json"] if mode == "json" else []
    return [
        (line, run(*shlex.split(line), *ends, stdin=stdin, env=MODES[mode]))
        for line, stdin in scenario
    ]


def written(done: list[tuple[str, Done]]) -> str:
    return "".join(
        f"$ roocontext {line}\n{one.out}{one.err}{f'[exit {one.code}]' * bool(one.code)}\n"
        for line, one in done
    )


@pytest.mark.parametrize(
    ("mode", "database"),
    [
        *((mode, "file") for mode in everyday(("80", "json"), list(MODES))),
        *((mode, "postgres") for mode in everyday(("120",), list(MODES))),
    ],
    indirect=["database"],
)
def test_every_screen_matches_the_golden_one(mode, database, command_line):
    showcase.build(database)
    done = played(command_line(database), mode)
    golden = (GOLDEN / f"{mode}.txt").read_text()
    if database.startswith("postgres"):
        golden = on_postgres(golden, mode)
    assert written(done).splitlines() == golden.splitlines()
    if mode == "json":
        fits_its_model(done)


def test_reads_on_postgres_print_the_same_json(postgres_url, command_line):
    """Escaping is shown as text, by the test before this one."""
    showcase.build(postgres_url)
    done = played(command_line(postgres_url), "json", LOOKS)
    shown = written(done).splitlines()
    golden = (GOLDEN / "json.txt").read_text().splitlines()
    assert len(shown) >= len(LOOKS)
    assert shown == golden[: len(shown)]


def on_postgres(golden: str, mode: str) -> str:
    """The same screen on PostgreSQL, which does not promise that bytes are gone."""
    remain = "Bytes may remain in the database's log, free space or backups."
    if mode == "json":
        return golden.replace('"erased": true', '"erased": false')
    return golden.replace("The bytes were removed from the file.", fill(remain, int(mode)))


def is_narrowed(words: list[str], by: str) -> bool:
    """True if an argument or an option makes the command print its other document."""
    match words:
        case ["show", _, seq, *_]:
            return seq.isdigit()
        case ["usage", *rest]:
            return not rest or rest[0].startswith("--")
    return by in words


# The documents as pydantic models: those of `reports`, and the library's own values


def model_of(kind: type) -> type[BaseModel]:
    """The model of a document; of a value of the library, one that has its fields."""
    if issubclass(kind, BaseModel):
        return kind
    fields: dict[str, Any] = {name: (hint, ...) for name, hint in get_type_hints(kind).items()}
    return create_model(
        kind.__name__, __config__=ConfigDict(extra="forbid"), __doc__=kind.__doc__, **fields
    )


def schema() -> Any:
    """The JSON schema of all documents: names and types, not the prose."""
    models = [(model_of(kind), "serialization") for kind in DOCUMENTS.values()]
    found = json.dumps(bare(models_json_schema(models)[1]))
    # pydantic 2.12 puts the module before a name that a value and the model made of it share.
    return json.loads(re.sub(r"\b(?:[a-z_]+__)+(?=[A-Z])", "", found))


def bare(part: Any) -> Any:
    """A part of a schema without titles and descriptions; a property may be called so."""
    if isinstance(part, list):
        return [bare(one) for one in part]
    if not isinstance(part, dict):
        return part
    prose = [key for key in ("title", "description") if isinstance(part.get(key), str)]
    return {key: bare(value) for key, value in part.items() if key not in prose}


def fits_its_model(done: list[tuple[str, Done]]) -> None:
    shapes = {one.name: one for one in described}
    seen = set()
    for line, one in done:
        words = line.split()
        shape = shapes[words[1] if words[0] == "db" else words[0]]
        if not one.out:
            assert one.code or shape.is_stream
            continue
        seen.add(shape.name)
        document = shape.narrow_document if is_narrowed(words, shape.narrowed) else shape.document
        adapter = TypeAdapter(model_of(DOCUMENTS[document]))
        for text in one.out.splitlines() if shape.is_stream else [one.out]:
            # pydantic takes no lone surrogate, which a message may hold.
            found = adapter.validate_json(text.replace("\\ud800", "?"), strict=True)
            assert set(json.loads(text)) == set(found.model_dump())
    assert seen == shapes.keys() - SHOWN_ELSEWHERE


def test_schema_of_the_documents_matches_the_golden_one():
    assert schema() == json.loads(SCHEMA.read_text())


def test_every_command_prints_a_document_of_the_catalogue():
    assert {one.document for one in described} <= DOCUMENTS.keys()


def test_pydantic_is_loaded_for_documents_alone():
    code = (
        "import sys; from roocontext import Store; from roocontext.cli import app;"
        "app.run(['--help']); Store.open(':memory:').create().append('user', 'x');"
        "print('pydantic' in sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stderr == "False\n"


def test_every_command_has_a_golden_screen():
    shown = {line.split()[1 if line.startswith("db ") else 0] for line, _ in SCENARIO}
    assert shown == {one.name for one in described} - SHOWN_ELSEWHERE


def test_no_screen_is_wider_than_the_terminal():
    from rich.cells import cell_len  # noqa: PLC0415

    for mode in ("40", "80", "120"):
        lines = (GOLDEN / f"{mode}.txt").read_text().split("$ roocontext ")
        for part in lines:
            command, _, screen = part.partition("\n")
            # What is shown whole goes out as it is, for other programs too.
            if "--full" in command or command.startswith(("head", "show parser 5")):
                continue
            wide = [line for line in screen.splitlines() if cell_len(line) > int(mode)]
            assert [line for line in wide if not line.startswith("roocontext: ")] == [], command


def test_no_control_character_reaches_the_screen():
    import unicodedata  # noqa: PLC0415

    for mode in MODES:
        text = (GOLDEN / f"{mode}.txt").read_text()
        acting = {c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")}
        assert acting <= {"\n", "\u200d"}


def main() -> None:
    SCHEMA.write_text(json.dumps(schema(), indent=2) + "\n")
    for mode in MODES:
        with preloaded() as process, tempfile.TemporaryDirectory() as folder:
            url = str(Path(folder) / "store.db")
            showcase.build(url)
            (GOLDEN / f"{mode}.txt").write_text(
                written(played(CommandLine(process, Path(folder), url), mode))
            )


if __name__ == "__main__":
    main()
