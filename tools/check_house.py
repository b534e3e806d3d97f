"""The size guards of `make check`: few files, each of them a subject, and one name for one thing.

Run it with `python tools/check_house.py`. It prints every violation, and exits with 1 if there is
any.
"""  # noqa: INP001 - a script, not a package

import ast
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "roocontext"

AVERAGE = 115
"""Code lines of a file, on average: below that, files are functions instead of subjects."""
MODULES = 20
"""The most modules in a folder."""

# Names that modules of one folder share because each of them is a plugin of the same kind, or, in
# `testing`, because the suite has a vocabulary of its own for stores that are not ours.
CONVENTIONAL = {
    "cli/commands": None,
    "formats": {"export_folder", "export_session", "sources"},
    "testing": {"History", "Message", "Receipt", "View"},
}


def main() -> int:
    """Print the violations, and return the exit code."""
    modules = [path for path in sorted(PACKAGE.rglob("*.py")) if path.name != "__init__.py"]
    problems = [*_small_files(modules), *_full_folders(modules), *_repeated_names(modules)]
    for problem in problems:
        print(problem)  # noqa: T201 - this is what it is for
    return int(bool(problems))


def code_lines(path: Path) -> int:
    """How many lines of a file are neither blank, nor a comment, nor a docstring."""
    text = path.read_text()
    lines: set[int] = set()
    empty = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    for token in tokenize.generate_tokens(iter(text.splitlines(keepends=True)).__next__):
        if token.type not in empty and token.type != tokenize.ENDMARKER:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(value=ast.Constant(value=str()), lineno=first, end_lineno=int(last)):
                lines.difference_update(range(first, last + 1))
    return len(lines)


def _small_files(modules: list[Path]) -> Iterator[str]:
    total = sum(map(code_lines, modules))
    if total < AVERAGE * len(modules):
        yield (
            f"{len(modules)} files have {total / len(modules):.0f} code lines on average; the least"
            f" is {AVERAGE}. Merge files that one other file imports."
        )


def _full_folders(modules: list[Path]) -> Iterator[str]:
    count: defaultdict[Path, int] = defaultdict(int)
    for path in modules:
        count[path.parent] += 1
    for folder, number in count.items():
        if number > MODULES:
            yield f"{_name(folder)} has {number} modules; the most is {MODULES}."


def _repeated_names(modules: list[Path]) -> Iterator[str]:
    homes: defaultdict[str, list[Path]] = defaultdict(list)
    for path in modules:
        for node in ast.parse(path.read_text()).body:
            match node:
                case ast.ClassDef(name=name) | ast.FunctionDef(name=name) if name[0] != "_":
                    if not _is_conventional(path, name):
                        homes[name].append(path)
    for name, paths in homes.items():
        if len(paths) > 1:
            yield f"{name} is defined in {' and '.join(map(_name, paths))}."


def _is_conventional(path: Path, name: str) -> bool:
    for folder, names in CONVENTIONAL.items():
        if PACKAGE / folder in path.parents:
            return names is None or name in names
    return False


def _name(path: Path) -> str:
    return path.relative_to(PACKAGE.parent).as_posix()


if __name__ == "__main__":
    sys.exit(main())
