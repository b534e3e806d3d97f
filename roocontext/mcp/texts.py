"""Documents as the text of an answer: JSON that any client can read, and not too much of it."""

import json
import re
from typing import Any, Final

from roocontext.reports.document import as_json

_LONE: Final = re.compile("[\ud800-\udfff]")


def as_text(document: Any, longest: int) -> str:
    """A document as JSON, in which texts are cut that have more than `longest` characters."""
    made = json.dumps(cut(as_json(document), longest), ensure_ascii=False)
    # A protocol message is UTF-8, which has no lone surrogates; JSON has an escape for them.
    return _LONE.sub(lambda found: f"\\u{ord(found[0]):04x}", made)


def cut(value: Any, longest: int) -> Any:
    """Cut long texts in the middle, at any depth, and write there how much was left out."""
    if isinstance(value, str):
        if len(value) <= longest:
            return value
        half = longest // 2
        left_out = len(value) - 2 * half
        return f"{value[:half]}\n[{left_out:,} characters left out]\n{value[-half:]}"
    # Without comprehensions, which take a second frame a level: contents may be 500 levels deep.
    if isinstance(value, list):
        items: list[Any] = []
        for item in value:
            items.append(cut(item, longest))  # noqa: PERF401
        return items
    if isinstance(value, dict):
        fields: dict[str, Any] = {}
        for name, item in value.items():
            fields[name] = cut(item, longest)
        return fields
    return value
