"""Changes of what the model sees: rewind, undo, uncover, pin and fork, each shown before."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING, Final

from starlette.responses import RedirectResponse, Response

from roocontext.errors import NothingToUndo, SessionExists, UndoRefused
from roocontext.log.draft import UNCOVERED
from roocontext.log.encoding import check_id
from roocontext.log.entries import MESSAGE_KINDS, Control, Kind, Range, subtract
from roocontext.log.spans import spans_of, visible_ranges, within
from roocontext.reports.history import EntryRow, difference, one_entry, rows_from, text_in
from roocontext.reports.markup.body import on_one_line
from roocontext.reports.markup.elements import Child, Html, facts, link_to, tag, together
from roocontext.reports.naming import quantity
from roocontext.reports.undo import last_change, undo_last_change
from roocontext.store.engine.clock_and_ids import RandomIds
from roocontext.store.sessions.excerpt import Extent, LogExcerpt, Sizes
from roocontext.web.pages.addresses import PageLinks, address, session_path
from roocontext.web.pages.compact import compact_form
from roocontext.web.pages.forms import FormRequest, change_form, number_field
from roocontext.web.pages.history import MOST_LISTED, changed_messages
from roocontext.web.pages.respond import session_frame

if TYPE_CHECKING:
    from roocontext import Session
    from roocontext.store.writing.uncover import Uncovered

NOTHING_LOST: Final = "Nothing is deleted: undo takes it back."


def session_menu(asked: FormRequest) -> Response:
    """The changes that the session as a whole allows."""
    excerpt, path = _excerpt(asked.chat), asked.path
    last = last_change(excerpt.controls)
    undo: Child = "Nothing has changed what the model sees, so there is nothing to undo."
    if last is not None:
        name = f"{last.kind} {last.seq}"
        undo = [
            "The last change is ",
            link_to(name, f"{path}/e/{last.seq}"),
            ". ",
            link_to("See what undoing it would do", f"{path}/undo"),
        ]
    return session_frame(
        "Change this session",
        excerpt.overview.info,
        tag("h2", "Undo"),
        tag("p", undo),
        tag("h2", "Make room"),
        compact_form(asked),
        tag("h2", "Rewind"),
        tag(
            "form",
            number_field("To what it was right after entry ", "to", required=True),
            tag("button", "Show what changes"),
            action=f"{path}/rewind",
            class_="change",
        ),
        tag("h2", "Fork"),
        _fork_form(path, excerpt.seq),
        _purge_link(asked),
    )


def _purge_link(asked: FormRequest) -> Html | None:
    if not asked.settings.admin:
        return None
    link = link_to("See what a purge would delete", f"{asked.path}/purge")
    return together(tag("h2", "Delete for good"), tag("p", link))


def _fork_form(path: str, at: int) -> Html:
    return change_form(
        f"{path}/fork",
        "Fork",
        number_field("A new session with the entries up to ", "at", at),
        tag("label", "named ", tag("input", type="text", name="title", size=24)),
        once=RandomIds().new_id(),
    )


def entry_menu(asked: FormRequest) -> Response:
    """The changes that an entry allows."""
    chat, seq = asked.chat, int(asked.request.path_params["seq"])
    row = one_entry(chat, seq)
    excerpt, path = _excerpt(chat), asked.path
    actions = [tag("li", action) for action in _actions(asked, chat, row)]
    return session_frame(
        f"Change at entry {seq}",
        excerpt.overview.info,
        facts(link_to(f"Entry {seq}", f"{path}/e/{seq}"), row.speaker or row.note or row.kind),
        tag("p", on_one_line(text_in(row) or "", 200), class_="quoted", dir="auto"),
        tag("ul", actions, class_="actions"),
        tag("h2", "Fork"),
        _fork_form(path, seq),
    )


def _actions(asked: FormRequest, chat: "Session", row: EntryRow) -> Iterator[Html]:
    path, seq = asked.path, row.seq
    for words, to in (("after", seq), ("before", seq - 1)):
        yield link_to(f"Rewind to right {words} this entry", address(f"{path}/rewind", to=to))
    kind = Kind(row.kind)
    if kind in UNCOVERED:
        yield link_to(f"Uncover what this {kind} hides", address(f"{path}/uncover", seq=seq))
    if kind in MESSAGE_KINDS:
        is_pinned = seq in chat.pins()
        yield change_form(
            f"{path}/pin",
            "Unpin" if is_pinned else "Pin",
            tag(
                "span",
                "It is pinned: no plan may hide or clear it."
                if is_pinned
                else "A pinned message is never hidden or cleared by a plan.",
            ),
            seq=seq,
            pinned=0 if is_pinned else 1,
        )
    if asked.settings.admin:
        link = address(f"{path}/redact", seq=seq)
        yield link_to("Redact: see what would be erased for good", link)


# Rewind


def rewind_preview(asked: FormRequest) -> Response:
    """The difference that a rewind would make."""
    chat, to = asked.chat, asked.number("to")
    excerpt, done = _excerpt(chat), chat.rewind(to, dry_run=True)
    where = f"entry {to}" if to else "the start"
    form = change_form(
        f"{asked.path}/rewind", f"Rewind to {where}", to=to, head=excerpt.overview.info.head_seq
    )
    return session_frame(
        f"Rewind to {where}",
        excerpt.overview.info,
        tag(
            "p",
            f"The session becomes what it was right after {where}. {NOTHING_LOST}"
            if done.changed
            else f"The session already is what it was right after {where}.",
        ),
        form if done.changed else None,
        _difference(chat, excerpt, to) if done.changed else None,
    )


def make_rewind(asked: FormRequest) -> Response:
    """Rewind, and show the session."""
    done = asked.chat.rewind(asked.number("to"), expected_seq=asked.number("head"))
    return asked.done(done.seq)


def _difference(chat: "Session", excerpt: LogExcerpt, to: int) -> Html:
    change = difference(chat, excerpt.seq, to)
    return changed_messages(change.left, change.came, PageLinks(chat.id))


# Undo and uncover


def undo_preview(asked: FormRequest) -> Response:
    """A preview of undoing the last change."""
    chat, force = asked.chat, asked.fields.get("force") == "1"
    excerpt = _excerpt(chat)
    try:
        undone = undo_last_change(chat, of=None, force=force, expected_seq=None, dry_run=True)
    except NothingToUndo as error:
        return session_frame("Undo", excerpt.overview.info, tag("p", error.fact))
    except UndoRefused as error:
        anyway = link_to("See what it would hide", address(f"{asked.path}/undo", force=1))
        return session_frame("Undo", excerpt.overview.info, tag("p", error.fact, " ", anyway))
    name = f"{undone.undone_kind} {undone.undone}"
    form = change_form(
        f"{asked.path}/undo",
        f"Undo {name}",
        of=undone.undone,
        force=int(force),
        head=excerpt.overview.info.head_seq,
    )
    if undone.to is not None:
        preview = _difference(chat, excerpt, undone.to)
    else:
        preview = _uncovered(chat, excerpt, chat.uncover(undone.undone or 0, dry_run=True))
    line = f"This takes back {name}. An undo can be undone by another undo."
    return session_frame(f"Undo {name}", excerpt.overview.info, tag("p", line), form, preview)


def make_undo(asked: FormRequest) -> Response:
    """Undo the last change, and show the session."""
    done = undo_last_change(
        asked.chat,
        of=asked.number("of", 1),
        force=asked.fields.get("force") == "1",
        expected_seq=asked.number("head"),
        dry_run=False,
    )
    return asked.done(done.seq)


def uncover_preview(asked: FormRequest) -> Response:
    """A preview of uncovering an entry."""
    chat, seq = asked.chat, asked.number("seq", 1)
    excerpt, done = _excerpt(chat), chat.uncover(seq, dry_run=True)
    name = f"{one_entry(chat, seq).kind} {seq}"
    if not done.changed:
        line = f"Uncovering {done.seq} has taken back {name} already."
        return session_frame(f"Uncover {name}", excerpt.overview.info, tag("p", line))
    form = change_form(
        f"{asked.path}/uncover", f"Uncover {name}", seq=seq, head=excerpt.overview.info.head_seq
    )
    line = f"This takes back {name}, and keeps everything after it. {NOTHING_LOST}"
    return session_frame(
        f"Uncover {name}",
        excerpt.overview.info,
        tag("p", line),
        form,
        _uncovered(chat, excerpt, done),
    )


def make_uncovering(asked: FormRequest) -> Response:
    """Uncover an entry, and show the session."""
    done = asked.chat.uncover(asked.number("seq", 1), expected_seq=asked.number("head"))
    return asked.done(done.seq)


def _uncovered(chat: "Session", excerpt: LogExcerpt, done: "Uncovered") -> Html:
    """The messages that an uncovering would bring back, and those that would leave the view."""
    written = Control(excerpt.seq + 1, Kind.UNCOVERING, uncovers=done.rows)
    spans = spans_of([*excerpt.controls, written], written.seq)
    now = sorted(visible_ranges(excerpt.spans, excerpt.seq))
    then = sorted(visible_ranges(spans, excerpt.seq))
    blocks = quantity(done.restored, "tool output")
    return together(
        tag("p", f"{blocks} would be shown again.") if done.restored else None,
        changed_messages(
            _messages(chat, subtract(now, then), excerpt.seq),
            _messages(chat, subtract(then, now), excerpt.seq),
            PageLinks(chat.id),
            counts=(done.left, done.returned),
        ),
    )


def _messages(chat: "Session", ranges: Iterable[Range], last: int) -> list[EntryRow]:
    """The first messages in these ranges."""
    rows = (
        row
        for lo, hi in ranges
        for row in islice(rows_from(chat, lo, as_of=last), hi - lo + 1)
        if Kind(row.kind) in MESSAGE_KINDS and within([(lo, hi)], row.seq)
    )
    return list(islice(rows, MOST_LISTED))


# Pin and fork


def change_pin(asked: FormRequest) -> Response:
    """Pin or unpin a message, and show it."""
    chat, seq = asked.chat, asked.number("seq", 1)
    (chat.pin if asked.fields.get("pinned") == "1" else chat.unpin)(seq)
    return RedirectResponse(f"{asked.path}/e/{seq}", 303)


def make_fork(asked: FormRequest) -> Response:
    """Make a fork, and show it. The same form sent twice makes one."""
    chat, at, title = asked.chat, asked.number("at"), asked.fields.get("title", "").strip()
    if title:
        check_id("title", title)  # before the fork is made
    # Going back and changing the form asks for another fork.
    request = repr((chat.id, at, title, asked.fields.get("once") or RandomIds().new_id()))
    name = sha256(request.encode()).hexdigest()[:32]
    with suppress(SessionExists):
        chat.fork(at, session_id=name)
    if title:
        asked.store.session(name).set_title(title, client_id=name)
    return RedirectResponse(session_path(name), 303)


def _excerpt(chat: "Session") -> LogExcerpt:
    return chat.internals.excerpt(Extent.ALL, sizes=Sizes(entries=1))
