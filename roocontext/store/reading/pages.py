"""Pages of lists, and the cursors that continue them. All cursors are made and read here.

A cursor is the name of its list and the place where the page ends, as text that needs no quoting in
a URL or a shell. Anyone may send one, so its parts are checked before they reach the database.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Generic, TypeVar

import msgspec

from roocontext.errors import InvalidOption
from roocontext.log.encoding import MAX_INTEGER, check_id, check_integer
from roocontext.log.values import as_json
from roocontext.store.engine.check_arguments import check_maybe

Item = TypeVar("Item")

_decode = msgspec.json.Decoder(list[int | str]).decode


class Page(list[Item], Generic[Item]):
    """A list of items. `next` is the `after` of the following page; None on the last one."""

    next: str | None

    def __init__(self, items: Iterable[Item] = (), next: str | None = None) -> None:  # noqa: A002
        super().__init__(items)
        self.next = next

    def to_dict(self) -> dict[str, Any]:
        """The value as dicts, lists and scalars, as `--json` prints it."""
        return {"items": [as_json(item) for item in self], "next": self.next}


def cut_page(items: Sequence[Item], limit: int, cursor_of: Callable[[Item], str]) -> Page[Item]:
    """Make a page of the first items, of which one more than `limit` says that others follow."""
    page = items[:limit]
    return Page(page, cursor_of(page[-1]) if len(items) > limit else None)


def to_limit(limit: int | None) -> int:
    """The size of a page; None is all."""
    check_maybe("limit", limit, least=1)
    return MAX_INTEGER if limit is None else limit


def rows_for(limit: int) -> int:
    """The number of rows that `cut_page` needs."""
    return min(limit + 1, MAX_INTEGER)


def write_cursor(name: str, *place: int | str) -> str:
    """Make the cursor of a place in a list."""
    return urlsafe_b64encode(msgspec.json.encode([name, *place])).decode().rstrip("=")


def read_cursor(name: str, cursor: object, *types: type[int | str]) -> list[Any]:
    """Read the place from a cursor of this list; InvalidOption if it is not one."""
    parts = _parts(cursor)
    if not parts:
        line = "`after` is not a cursor: pass the `next` of the page before, unchanged."
        raise InvalidOption(line, name="after")
    if [parts[0], *map(type, parts[1:])] != [name, *types]:
        line = "`after` continues another list, or the same list in another order."
        raise InvalidOption(line, name="after")
    return parts[1:]


def _parts(cursor: object) -> list[Any]:
    """The parts of a cursor; none if it is no cursor."""
    if isinstance(cursor, str):
        # All errors of the decoders and of the checks are ValueErrors.
        with suppress(ValueError):
            parts = _decode(urlsafe_b64decode(f"{cursor}=="))
            for part in parts[1:]:  # the name of the list is only compared
                (check_id if isinstance(part, str) else check_integer)("after", part)
            return parts
    return []
