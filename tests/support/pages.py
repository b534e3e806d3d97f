"""Reads every page of a list."""

from collections.abc import Callable
from typing import Any


def every_page(read: Callable[..., Any], **asked: Any) -> list[Any]:
    """The pages of a list, each asked for with the cursor of the one before."""
    pages = [read(**asked)]
    while pages[-1].next is not None:
        pages.append(read(**asked, after=pages[-1].next))
    return pages
