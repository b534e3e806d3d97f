"""The frame of a page: its head, its title, its gauge, its tabs and its contents."""

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Final

from roocontext.log.entries import Kind
from roocontext.log.readings import text_of
from roocontext.reports.gauge import Gauge
from roocontext.reports.markup.body import MessageSource, blocks_of, on_one_line
from roocontext.reports.markup.elements import Child, Html, facts, link_to, tag, together
from roocontext.reports.naming import quantity, size
from roocontext.store.sessions.excerpt import ExcerptEntry
from roocontext.tokens import limit_for


def page_frame(
    title: str, *body: Child, head: Sequence[Child] = (), data: Mapping[str, str] | None = None
) -> Html:
    """A whole page."""
    return together(
        Html("<!DOCTYPE html>\n"),
        tag(
            "html",
            tag(
                "head",
                tag("meta", charset="utf-8"),
                tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
                tag("meta", name="color-scheme", content="light dark"),
                tag("title", title),
                head,
            ),
            tag("body", body, **dict(data or {})),
            lang="en",
        ),
    )


@cache
def inline_style() -> tuple[Html, str]:
    """The style as an element of a page that is one file, and the policy's name for it."""
    style = (files("roocontext.reports.markup") / "page" / "page.css").read_text("utf-8")
    digest = b64encode(sha256(style.encode()).digest()).decode()
    return tag("style", Html(style)), f"'sha256-{digest}'"


def gauge_bar(
    gauge: Gauge,
    *,
    visible_bytes: int,
    compactions: int,
    counted: str | None,
    images: int | None = None,
    drift: float | None = None,
    pins: Child = None,
) -> Html:
    """The fill level of the model's context, and its source.

    `drift` is the factor from the estimates to what the provider reported.
    """
    sign = "" if gauge.exact else "~"
    if gauge.limit is None:
        line: list[Child] = [
            tag("b", f"{sign}{gauge.tokens:,} tokens"),
            "; no model is known, so there is no limit",
        ]
        bar = None
    else:
        share = round(100 * gauge.tokens / gauge.limit) if gauge.limit else 0
        bar = tag(
            "meter",
            f"{share} %",
            min=0,
            max=gauge.limit,
            value=min(gauge.tokens, gauge.limit),
            high=round(gauge.limit * 0.8),
            aria_label="Context window",
        )
        line = [tag("b", f"{sign}{gauge.tokens:,}"), f" of {gauge.limit:,} tokens, {share} %"]
    return tag(
        "section",
        bar,
        tag("p", line),
        facts(
            *_how_known(gauge, visible_bytes, compactions),
            quantity(images, "image") if images else None,
            f"{drift:.2f} times the estimate was reported" if drift else None,
            ["pinned: ", pins] if pins else None,
            link_to("count", counted) if counted else None,
            class_="note facts",
        ),
        class_="gauge",
        aria_label="Context window",
    )


def _how_known(gauge: Gauge, visible_bytes: int, compactions: int) -> Iterable[str]:
    if gauge.model:
        yield gauge.model
        reserved = limit_for(gauge.model).output
        if reserved:
            yield f"{reserved:,} at most for the answer"
    if gauge.reported is not None:
        since = gauge.tokens - gauge.reported
        yield f"the provider reported {gauge.reported:,} at entry {gauge.reported_at}"
        if since:
            yield f"{since:,} since, by {gauge.counter}"
    else:
        yield f"{'counted' if gauge.exact else 'estimated'} by {gauge.counter}"
    yield size(visible_bytes)
    yield quantity(compactions, "compaction")


_TABS: Final = (("view", "Model sees"), ("live", "Live"), ("all", "Everything"))


def tab_bar(current: str, counts: Mapping[str, int], addresses: Mapping[str, str]) -> Html:
    """The three views of a session."""
    return tag(
        "nav",
        (
            tag(
                "a",
                name,
                tag("b", f"{counts[key]:,}") if key in counts else None,
                href=addresses[key],
                aria_current="page" if key == current else None,
            )
            for key, name in _TABS
        ),
        class_="tabs",
        aria_label="Views",
    )


_MOST_CONTENTS: Final = 24
_ACTING: Final = frozenset(Kind) - {Kind.MESSAGE, Kind.COMPANION, Kind.NOTE}


def contents(
    entries: Iterable[ExcerptEntry],
    speakers: Mapping[int, str],
    *,
    anchor: str = "e",
    most: int | None = _MOST_CONTENTS,
) -> Html | None:
    """The prompts of the user, and what was compacted: the way through a page."""
    items = []
    for item in entries:
        entry = item.audited
        if entry.kind in _ACTING:
            name = f"{entry.kind} {entry.seq}"
        elif speakers.get(entry.seq) == "user" and (line := _first_words(item)):
            name = line
        else:
            continue
        style = "acts" if entry.kind in _ACTING else None
        items.append(tag("li", link_to(name, f"#{anchor}{entry.seq}"), class_=style))
    if not items:
        return None
    # A page ends with the newest ones.
    shown = items[-most:] if most else items
    return tag(
        "nav",
        tag("h2", "On this page"),
        tag("ol", shown),
        class_="contents",
        aria_label="On this page",
        tabindex="0",
    )


def _first_words(item: ExcerptEntry) -> str:
    entry = item.audited
    if entry.role is None or entry.content is None:
        return ""
    message = MessageSource(entry.seq, entry.role, entry.content, entry.entry.format or "")
    return on_one_line(text_of(blocks_of(message)), 60)
