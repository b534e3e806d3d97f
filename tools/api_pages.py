"""The pages of the API reference, made from signatures and docstrings.

There is one for each class that `roocontext` exports or its methods return, and one for each public
module.

`tools/site_pages.py` adds them to the site when it is built. They are not kept in the repository.
"""  # noqa: INP001 - a module of the site's hook, not of a package

import enum
import importlib
import inspect
import re
from collections.abc import Callable, Generator, Iterator
from dataclasses import MISSING, fields, is_dataclass
from functools import cached_property
from types import FunctionType, ModuleType
from typing import Any, get_args, get_origin, get_type_hints

import roocontext
from roocontext import errors
from roocontext.recall import AsyncRecall, Recall, Recalled
from roocontext.registry import Registry

FOLDER = "reference/api"

SIBLINGS = {
    roocontext.AsyncStore: roocontext.Store,
    roocontext.AsyncSession: roocontext.Session,
    roocontext.AsyncSessionTurn: roocontext.SessionTurn,
    roocontext.AsyncChanges: roocontext.Changes,
    roocontext.AsyncContextManager: roocontext.ContextManager,
    AsyncRecall: Recall,
}
"""The classes for asyncio, and those whose methods they have."""

OBJECTS = [
    *(roocontext.Store, roocontext.Session, roocontext.SessionTurn, roocontext.Changes),
    roocontext.ContextManager,
    *(roocontext.Hooks, Recall, *SIBLINGS),
]
"""The classes that a program works with; all others are values that it passes or gets."""

MODULES = {
    "roocontext.context": "events for hooks",
    "roocontext.policies": "what a policy needs",
    "roocontext.tokens": "counters, limits, prices and reported usage",
    "roocontext.summarisers": "summarisers and prompts",
    "roocontext.recall": "tools with which a model looks back",
    "roocontext.formats": "import and export",
    "roocontext.testing": "checks for any store",
    "roocontext.log.readings": "what a stored format needs",
    "roocontext.log.forms": "what an outgoing form needs",
}
"""The public modules, and what is in them."""

WIDTH = 88


def pages() -> dict[str, str]:
    """The text of each page by its path below docs/."""
    texts = {f"{FOLDER}/{_file(kind)}": _page(kind) for kind in classes()}
    texts |= {f"{FOLDER}/{_module_file(name)}": _module_page(name) for name in MODULES}
    return {f"{FOLDER}/index.md": _index(), **texts}


def classes() -> list[type]:
    """Every class with a page: what is exported, and the values that its methods return."""
    exported = [getattr(roocontext, name) for name in roocontext.__all__]
    queue = [*OBJECTS, Recalled, *(kind for kind in exported if not _is_error(kind))]
    known: dict[type, None] = {}
    while queue:
        kind = queue.pop(0)
        if kind not in known:
            known[kind] = None
            queue += _returned(kind)
    return list(known)


def methods(kind: type) -> list[str]:
    """The names of a class's public methods, in the order of the source."""
    return [
        name
        for owner in inspect.getmro(kind)
        for name, member in vars(owner).items()
        if not name.startswith("_")
        and isinstance(getattr(member, "__func__", member), FunctionType)
    ]


def _returned(kind: type) -> Iterator[type]:
    """The values of the package that a class's methods return or that its fields hold."""
    hints = list(_hints(kind).values()) if _is_value(kind) else []
    hints += [inspect.signature(getattr(kind, name)).return_annotation for name in methods(kind)]
    for named in (named for hint in hints for named in _named(hint)):
        if not _is_error(named) and (_is_value(named) or issubclass(named, enum.Enum)):
            yield named


def _named(hint: Any) -> Iterator[type]:
    """The public classes of the package in a type hint."""
    if isinstance(hint, type) and hint.__module__.startswith("roocontext"):
        if not hint.__name__.startswith("_"):
            yield hint
    else:
        for part in get_args(hint):
            yield from _named(part)


def _is_error(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, errors.RooContextError)


def _is_value(kind: type) -> bool:
    is_record = is_dataclass(kind) or hasattr(kind, "__struct_fields__") or hasattr(kind, "_fields")
    return is_record and kind not in OBJECTS


def _file(kind: type) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", kind.__name__).lower() + ".md"


def _module_file(name: str) -> str:
    return f"module-{name.rpartition('.')[2]}.md"


def module_names(name: str) -> list[str]:
    """The public names of a module that have no page of their own."""
    module = importlib.import_module(name)
    own = {kind.__name__ for kind in classes()}
    return [
        name for name in module.__all__ if name not in own or not _has_page(getattr(module, name))
    ]


def _has_page(thing: Any) -> bool:
    return isinstance(thing, type) and thing in classes()


def _module_page(name: str) -> str:
    module = importlib.import_module(name)
    parts = [f"# {name}", "", _prose(module), ""]
    members = [getattr(module, member) for member in module.__all__]
    parts += _links([member for member in members if _has_page(member)], type(None))
    for member in module_names(name):
        parts += [f"## `{member}` {{ #{member} }}", "", *_member(module, member)]
    return "\n".join(parts) + "\n"


def _member(module: ModuleType, name: str) -> list[str]:
    member = getattr(module, name)
    if isinstance(member, Registry):
        return ["A registry: `register(name, ...)` adds to it, `known()` lists its names.", ""]
    if isinstance(member, FunctionType):
        return [*_code(name, member), _prose(member), ""]
    if not isinstance(member, type):
        text = f"{name}: {type(member).__name__}"
        if get_args(member):
            text = f"{name} = {_type(member)}"
        return ["```python", text, "```", ""]
    parts = [_prose(member), ""]
    if issubclass(member, enum.Enum):
        return [*parts, *(f"- `{choice.value}`" for choice in member), ""]
    if _is_value(member):
        lines = _field_lines(member)
        parts += ["```python", *lines, "```", ""] if lines else []
    elif member.__init__ is not object.__init__ and not getattr(member, "_is_protocol", False):
        parts += _code(name, member)
    for method in methods(member):
        function = getattr(member, method)
        parts += [f"### `{method}`", "", *_code(method, function), _prose(function), ""]
    return parts


def _index() -> str:
    values = sorted(set(classes()) - set(OBJECTS), key=lambda kind: kind.__name__)
    exceptions = [name for name in roocontext.__all__ if _is_error(getattr(roocontext, name))]
    intro = (
        "One page for each public class, made from the code when this site is built. All names in"
        " these tables can be imported from `roocontext`, unless a page names another module."
    )
    usual = (
        f"`roocontext` exports {len(exceptions)} of the [errors](../errors.md), those that an agent"
        " usually handles. All of them are in `roocontext.errors`."
    )
    parts = [
        "# API",
        "",
        intro,
        "",
        *_table("class", OBJECTS),
        "",
        "## Values",
        "",
        "What methods take and return. All are immutable.",
        "",
        *_table("value", values),
        "",
        "## Modules",
        "",
        "| module | |",
        "|---|---|",
        *(f"| [`{name}`]({_module_file(name)}) | {what} |" for name, what in MODULES.items()),
        "",
        "## Errors",
        "",
        usual,
    ]
    return "\n".join(parts) + "\n"


def _table(heading: str, kinds: list[type]) -> list[str]:
    rows = [f"| {heading} | |", "|---|---|"]
    for kind in kinds:
        first = re.split(r"(?<=\.)\s", " ".join(_doc(kind).split()), maxsplit=1)[0]
        rows.append(f"| [`{kind.__name__}`]({_file(kind)}) | {first} |")
    return rows


def _page(kind: type) -> str:
    home = "roocontext"
    if kind.__name__ not in roocontext.__all__:
        home = "roocontext.recall" if kind in {Recall, AsyncRecall, Recalled} else kind.__module__
    parts = [f"# {kind.__name__}", "", _prose(kind), ""]
    parts += ["```python", f"from {home} import {kind.__name__}", "```", ""]
    if issubclass(kind, enum.Enum):
        parts += [f"- `{member.value}`" for member in kind]
        return "\n".join(parts) + "\n"
    if _is_value(kind):
        parts += _fields(kind)
    elif kind in {roocontext.ContextManager, roocontext.Hooks, Recall}:
        parts += _code(kind.__name__, kind)
    parts += _properties(kind)
    sibling = SIBLINGS.get(kind)
    shared = [name for name in methods(kind) if sibling and _is_shared(kind, sibling, name)]
    if sibling and shared:
        links = ", ".join(f"[`{name}`]({_file(sibling)}#{name})" for name in shared)
        parts += [f"The methods of [`{sibling.__name__}`]({_file(sibling)}), to await:", "", links]
        parts.append("")
    for name in methods(kind):
        if name not in shared:
            parts += _method(kind, name)
    return "\n".join(parts) + "\n"


def _is_shared(kind: type, sibling: type, name: str) -> bool:
    return hasattr(sibling, name) and _doc(getattr(kind, name)) in {
        _doc(getattr(sibling, name)),
        f"See {sibling.__name__}.{name}.",
    }


def _fields(kind: Any) -> list[str]:
    linked = _links([_hints(kind)[name] for name in _names(kind)], kind)
    return ["## Fields", "", "```python", *_field_lines(kind), "```", "", *linked]


def _field_lines(kind: Any) -> list[str]:
    hints = _hints(kind)
    return [f"{name}: {_type(hints[name])}{_default(kind, name)}" for name in _names(kind)]


def _hints(kind: Any) -> dict[str, Any]:
    try:
        return get_type_hints(kind)
    except NameError:  # a type of an SDK, which is imported only for type checkers
        owners = reversed(inspect.getmro(kind))
        return {
            name: hint for owner in owners for name, hint in inspect.get_annotations(owner).items()
        }


def _names(kind: Any) -> list[str]:
    if is_dataclass(kind):
        return [field.name for field in fields(kind)]
    return list(getattr(kind, "__struct_fields__", None) or kind._fields)


def _default(kind: Any, name: str) -> str:
    if not is_dataclass(kind):
        return ""
    default = next(field.default for field in fields(kind) if field.name == name)
    return "" if default is MISSING else f" = {_value(default)}"


def _properties(kind: type) -> list[str]:
    members = {
        name: member
        for owner in reversed(inspect.getmro(kind))
        for name, member in vars(owner).items()
        if isinstance(member, property | cached_property) and not name.startswith("_")
    }
    members.pop("internals", None)
    if not members:
        return []
    rows = [f"- `{name}`: {_prose(member)}" for name, member in members.items()]
    return ["## Properties", "", *rows, ""]


def _method(kind: type, name: str) -> list[str]:
    method = getattr(kind, name)
    returned = inspect.signature(method).return_annotation
    parts = [f"## `{name}` {{ #{name} }}", "", *_code(name, method), _prose(method), ""]
    return parts + _links([returned], kind)


def _links(hints: list[Any], owner: type) -> list[str]:
    """A line that leads to the pages of the classes in some types."""
    named = {kind: None for hint in hints for kind in _named(hint) if kind in classes()}
    named.pop(owner, None)
    links = ", ".join(f"[`{kind.__name__}`]({_file(kind)})" for kind in named)
    return [f"See {links}.", ""] if links else []


def _code(name: str, function: Callable[..., Any]) -> list[str]:
    """A signature with its types, on one line or on one for each parameter."""
    signature = inspect.signature(function)
    given = signature.parameters.values()
    parameters = [parameter for parameter in given if parameter.name not in {"self", "cls"}]
    shown: list[str] = []
    is_keyword = False
    for parameter in parameters:
        if parameter.kind is parameter.KEYWORD_ONLY and not is_keyword:
            is_keyword = True
            shown.append("*")
        stars = {parameter.VAR_KEYWORD: "**", parameter.VAR_POSITIONAL: "*"}
        text = f"{stars.get(parameter.kind, '')}{parameter.name}: {_type(parameter.annotation)}"
        if parameter.default is not parameter.empty:
            text += f" = {_value(parameter.default)}"
        shown.append(text)
    returned = signature.return_annotation
    end = "" if isinstance(function, type) else f" -> {_type(returned)}"
    name = f"async {name}" if inspect.iscoroutinefunction(function) else name
    line = f"{name}({', '.join(shown)}){end}"
    lines = [line]
    if len(line) > WIDTH:
        lines = [f"{name}(", *(f"    {text}," for text in shown), f"){end}"]
    return ["```python", *lines, "```", ""]


def _type(hint: Any) -> str:
    if get_origin(hint) is Generator or getattr(get_origin(hint), "__name__", "") == "Generator":
        hint = get_args(hint)[2]  # Steps: the same run for both kinds of managers
    text = hint if isinstance(hint, str) else inspect.formatannotation(hint)
    text = re.sub(r"ForwardRef\('(\w+)'\)", r"\1", text)
    return re.sub(r"\b(?:[a-z_]\w*\.)+(?=\w)|~", "", text).strip("'")


def _value(default: Any) -> str:
    named = isinstance(default, FunctionType | type)
    text = default.__name__ if named else repr(default)
    return re.sub(r"<[^<>]*?\b(\w+)(?: object)? at 0x\w+>", r"\1", text)


def _doc(thing: Any) -> str:
    return inspect.getdoc(thing) or ""


def _prose(thing: Any) -> str:
    """A docstring as Markdown: its paragraphs, each on one line, with no HTML in it."""
    paragraphs = (" ".join(part.split()) for part in _doc(thing).split("\n\n"))
    return "\n\n".join(re.sub(r"<(?=[^`]*(?:`[^`]*`[^`]*)*$)", "&lt;", part) for part in paragraphs)
