"""Redactions and purges from the page, where the server was started with `--admin`.

What would be erased is shown first. A purge is confirmed by typing the session's id.
"""

from collections.abc import Sequence
from typing import Any

from starlette.responses import RedirectResponse, Response

from roocontext.errors import InvalidOption, SessionPurged
from roocontext.reports.erasing import PurgedReport, RedactedReport, planned_purge, redaction
from roocontext.reports.markup.body import session_title
from roocontext.reports.markup.elements import Child, Html, facts, link_to, tag, together
from roocontext.reports.markup.safe_html import preformatted
from roocontext.reports.naming import quantity, size
from roocontext.reports.times import zoned_time
from roocontext.web.pages.addresses import PageLinks, address, session_path
from roocontext.web.pages.forms import FormRequest, change_form
from roocontext.web.pages.respond import framed, session_frame

_MOST = 40


def redact_preview(asked: FormRequest) -> Response:
    """The content that a redaction would erase, or that is left after it."""
    chat, seq = asked.chat, asked.number("seq", 1)
    plan = redaction(chat, seq, dry_run=True)
    title = f"Redact entry {seq}" if plan.changed else f"Entry {seq} is redacted"
    return session_frame(
        title,
        chat.info(),
        facts(link_to(f"Entry {seq}", f"{asked.path}/e/{seq}")),
        _redacted(asked, plan) if plan.changed else None,
        _repetitions(plan),
    )


def _redacted(asked: FormRequest, plan: RedactedReport) -> Html:
    where = "in this session" if not plan.copies else "in this session and in its copies"
    return together(
        tag(
            "p",
            f"The content of this {plan.speaker}, {size(plan.bytes or 0)}, is erased for good"
            f" {where}. Its role, the types of its blocks and the ids of its calls stay. This"
            " cannot be undone.",
        ),
        Html(preformatted(plan.beginning or "", "code")),
        change_form(
            f"{asked.path}/redact",
            "Erase it for good",
            danger=True,
            seq=plan.seq,
            head=asked.chat.head_seq(),
        ),
    )


def _repetitions(plan: RedactedReport) -> Html:
    return together(
        _places("Its copies", plan.copies),
        _places("Answers of recall tools that quote it, which stay as they are", plan.quotes),
        _places("Summaries that may quote it, which stay as they are", plan.summaries),
        _places("Archived sessions that may hold it; their files stay as they are", plan.archived),
    )


def _places(name: str, places: Sequence[Sequence[Any]]) -> Html | None:
    few: list[Child] = [
        [
            link_to(f"entry {seq}", PageLinks(session).entry(seq)),
            " of ",
            tag("code", str(session)[:60]),
        ]
        for session, seq in places[:_MOST]
    ]
    return _listed(name, few, len(places))


def _listed(name: str, few: Sequence[Child], count: int) -> Html | None:
    """The first of so many things, if there are any, and how many more there are."""
    items = [tag("li", one) for one in few]
    left = count - len(few)
    more = tag("li", f"and {left:,} more") if left > 0 else None
    return together(tag("h2", name), tag("ul", items, more, class_="places")) if few else None


def make_redaction(asked: FormRequest) -> Response:
    """Erase the content of an entry, and show what is left."""
    asked.check_head()
    seq = asked.number("seq", 1)
    redaction(asked.chat, seq, dry_run=False)
    return RedirectResponse(address(f"{asked.path}/redact", seq=seq), 303)


def purge_preview(asked: FormRequest) -> Response:
    """The rows that a purge would delete, or the receipt of the purge."""
    is_there = True
    try:
        head = asked.chat.head_seq()
    except SessionPurged:
        head, is_there = 0, False
    plan = planned_purge(asked.store, asked.session_id, changed=is_there)
    title = "Purge this session" if is_there else "This session was purged"
    return framed(
        f"{title}, {asked.session_id}",
        tag("h1", title),
        tag("p", link_to(session_title(plan), asked.path), class_="note") if is_there else None,
        _sizes(plan),
        _purge_form(asked, head) if is_there else None,
        _copies(plan),
    )


def _sizes(plan: PurgedReport) -> Html:
    return facts(
        quantity(plan.entries, "entry", "entries"),
        quantity(plan.messages, "message"),
        size(plan.bytes),
        None if plan.changed else f"purged {zoned_time(plan.purged_at)}",
    )


def _purge_form(asked: FormRequest, head: int) -> Html:
    return together(
        tag(
            "p",
            "Everything in the session is deleted for good. A receipt stays, and the id is never"
            " used again. This cannot be undone.",
        ),
        change_form(
            f"{asked.path}/purge",
            "Delete it for good",
            tag(
                "label",
                "To confirm, type the id of the session: ",
                tag("code", asked.session_id),
                " ",
                tag("input", type="text", name="confirmed", autocomplete="off", required=True),
            ),
            danger=True,
            head=head,
        ),
    )


def _copies(plan: PurgedReport) -> Html | None:
    few = [link_to(name[:60], session_path(name)) for name in plan.copies[:_MOST]]
    name = "Sessions that hold entries of it, which stay as they are"
    return _listed(name, few, len(plan.copies))


def make_purge(asked: FormRequest) -> Response:
    """Purge the session, and show the receipt."""
    if asked.fields.get("confirmed", "").strip() != asked.session_id.strip():
        line = "The session was not purged: the typed text is not its id."
        raise InvalidOption(line, name="confirmed")
    asked.store.purge(asked.session_id, expected_seq=asked.number("head"))
    return RedirectResponse(f"{asked.path}/purge", 303)
