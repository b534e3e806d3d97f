"""Condensing, truncating and clearing from the page: what a policy would do, and doing it."""

from typing import TYPE_CHECKING, Final

from starlette.responses import Response

from roocontext import ContextManager
from roocontext.errors import InvalidOption
from roocontext.policies.builtin import policies
from roocontext.reports.history import MessageRow, message_rows
from roocontext.reports.markup.body import Level, MessageBody, MessageSource, Room, Style
from roocontext.reports.markup.elements import Child, Html, facts, link_to, tag, together
from roocontext.reports.naming import quantity
from roocontext.web.compacting import compacted, manager_for, with_known_window
from roocontext.web.pages.addresses import PageLinks
from roocontext.web.pages.forms import FormRequest, change_form, choice_field, number_field
from roocontext.web.pages.history import changed_messages
from roocontext.web.pages.respond import framed

if TYPE_CHECKING:
    from roocontext import Session
    from roocontext.context import Outcome

_AIMS: Final = {
    "condense": "Condense: a summary replaces old messages",
    "truncate": "Truncate: a marker replaces the oldest messages",
    "clear": "Clear: placeholders replace old tool outputs",
    "manage": "Only what is necessary: nothing while there is room",
}
_WRITTEN: Final = (600, 20_000)
"""The elements and compressed bytes of the rows that would be written."""
_MOST_WRITTEN: Final = 4


def compact_form(asked: FormRequest) -> Html:
    """The choice of a compaction. Its effect is shown first."""
    aim, policy = _choice(asked)
    limit, summariser = asked.fields.get("limit"), asked.request.app.state.summariser.name
    names = {name: name for name in ("default", *policies.known())}
    return tag(
        "form",
        tag("label", "What ", choice_field("aim", _AIMS, aim)),
        tag("label", "by policy ", choice_field("policy", names, policy)),
        number_field("for a window of ", "limit", limit, unit=" tokens", placeholder="the model's"),
        tag("button", "Show what changes"),
        tag("p", f"Summaries are written by {summariser}.", class_="note"),
        action=f"{asked.path}/compact",
        class_="change",
    )


def _choice(asked: FormRequest) -> tuple[str, str]:
    aim = asked.fields.get("aim") or "condense"
    if aim not in _AIMS:
        raise InvalidOption(f"aim must be one of {', '.join(_AIMS)}.", name="aim")
    return aim, asked.fields.get("policy") or "default"


def _manager(asked: FormRequest, chat: "Session", policy: str) -> ContextManager:
    limit = asked.number("limit", 1) if asked.fields.get("limit") else None
    summariser = asked.request.app.state.summariser
    return with_known_window(chat, manager_for(chat, summariser, policy=policy, limit=limit))


def compact_preview(asked: FormRequest) -> Response:
    """A preview of a compaction, with the summary that it would write."""
    chat, (aim, policy) = asked.chat, _choice(asked)
    head = chat.head_seq()
    outcome = _manager(asked, chat, policy).preview(chat, aim)
    name = _AIMS[aim].partition(":")[0]
    body: list[Child] = [tag("h1", name), _back(asked), compact_form(asked), _figures(outcome)]
    if outcome.changed:
        limit = asked.fields.get("limit") or None
        where = f"{asked.path}/compact"
        body += [
            change_form(where, "Do this", aim=aim, policy=policy, limit=limit, head=head),
            _shown(chat, outcome),
        ]
    return framed(f"{name}, {chat.id}", *body, session=chat.id)


def _back(asked: FormRequest) -> Html:
    return facts(
        link_to("Back to the session", asked.path), link_to("Other changes", f"{asked.path}/change")
    )


def _figures(outcome: "Outcome") -> Html:
    """The outcome in figures, and why it is not more."""
    sign = "" if outcome.exact else "~"
    before, after = outcome.tokens_before, outcome.tokens_after
    counts = [
        quantity(count, noun) + what
        for count, noun, what in (
            (outcome.hidden, "message", " hidden"),
            (outcome.cleared, "tool output", " cleared"),
        )
        if count
    ]
    figures: list[Child] = [
        tag("b", f"{sign}{before:,} → {sign}{after:,}"),
        *counts,
        f"policy {outcome.policy}, for {outcome.window:,} tokens, by {outcome.counter}",
    ]
    if outcome.cost:
        figures.append(f"the summary cost ${outcome.cost:.4f}")
    reason = outcome.reason or ("" if outcome.changed else "There is nothing to do.")
    return together(facts(*figures, class_="facts outcome"), tag("p", reason) if reason else None)


def _shown(chat: "Session", outcome: "Outcome") -> Html:
    """The rows that would be written, and the messages that would leave the view."""
    now, then = ([*message_rows(view)] for view in (chat.view().messages, outcome.view or ()))
    before, after = {row.seq for row in now}, {row.seq for row in then}
    left = [row for row in now if row.seq not in after]
    came = [row for row in then if row.seq not in before]
    room, links = Room(*_WRITTEN), PageLinks(chat.id)
    written = [
        tag("li", _written(row, room, links, len(came) - at))
        for at, row in enumerate(came[:_MOST_WRITTEN], 1)
    ]
    return together(
        tag("h2", "What would be written"),
        tag("ol", written, class_="entries") if written else tag("p", "No message.", class_="note"),
        changed_messages(left, [], links),
    )


def _written(row: MessageRow, room: Room, links: PageLinks, others: int) -> Html:
    source = MessageSource(row.seq, row.role, row.content, row.format)

    def body(level: Level) -> Html:
        return MessageBody(source, level, Style(), links, {}).markup()

    header = tag("header", tag("h3", tag("span", row.kind, class_="who")), class_="head")
    return tag("section", header, room.fitted(body, others), class_=f"entry {row.kind}")


def make_compaction(asked: FormRequest) -> Response:
    """Do what the preview showed, and show the session."""
    chat, (aim, policy) = asked.chat, _choice(asked)
    asked.check_head()
    outcome = compacted(chat, _manager(asked, chat, policy), aim, asked.number("head"))
    return asked.done(outcome.seqs[-1] if outcome.seqs else None)
