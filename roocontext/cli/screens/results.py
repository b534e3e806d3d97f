"""What commands have done or found, in a few lines each."""

from collections import Counter
from typing import TYPE_CHECKING

from rich.cells import cell_len

from roocontext.cli.screens import timeline
from roocontext.cli.screens.next_commands import draw_next, next_command
from roocontext.cli.screens.safe_text import named, one_line, safe, visible_json
from roocontext.cli.screens.screen import Screen
from roocontext.log.entries import Kind
from roocontext.reports.naming import quantity, ranges_in_words, size
from roocontext.reports.times import zoned_time

if TYPE_CHECKING:
    from roocontext import Head, Receipt
    from roocontext.reports.health import Diagnosis
    from roocontext.reports.results import (
        Backup,
        Checked,
        Forked,
        History,
        OutcomeReport,
        Pins,
        Titled,
        Upgraded,
        Verified,
    )
    from roocontext.reports.transfers import Exported, Import, ImportedSession
    from roocontext.reports.undo import ViewChange
    from roocontext.store.engine.migrate import SchemaVersion


_GOOD = 20
"""How many sessions without a problem are listed."""


def draw_receipt(screen: Screen, answer: "Receipt") -> None:
    """The entry that was written."""
    name = named(answer.session_id, screen.signs.more)
    if answer.new:
        screen.line(f"Appended entry {answer.seq} to {name}, hash {answer.hash[:16]}.")
        return
    back = answer.rewound_by
    since = "" if back is None else f" Rewind {back} has taken it back since."
    screen.line(f"Entry {answer.seq} of {name} was stored before. Nothing was written.{since}")


def draw_outcome(screen: Screen, answer: "OutcomeReport") -> None:
    """What was done, the sizes before and after, and the view that a preview leaves."""
    screen.line(_done(answer))
    sign = "" if answer.exact else "~"
    before, after = answer.tokens_before, answer.tokens_after
    arrow = f"{screen.signs.arrow} {sign}{after:,} " if answer.seqs else ""
    noun = "token" if (after if answer.seqs else before) == 1 else "tokens"
    screen.line(f"{sign}{before:,} {arrow}{noun} of {answer.window:,}")
    dot = screen.signs.dot
    known = "" if answer.window_source != "default" else f" {dot} no model is known"
    about = f"policy {one_line(answer.policy)} {dot} counted by {one_line(answer.counter)}"
    screen.line((f"{about}{known}", "note"))
    if after > before:
        would = "would grow" if answer.dry_run else "grew"
        screen.line(
            f"The context {would} by {quantity(after - before, 'token')}, as in the program that"
            f" policy {answer.policy} imitates."
        )
    for name, count in answer.excess.items():
        screen.line((f"That is {count:,} {one_line(name)} over the limit.", "warn"))
    for row in answer.view or []:
        timeline.draw_brief(screen, row, " ", "")


def draw_forked(screen: Screen, answer: "Forked") -> None:
    """The new session."""
    more = screen.signs.more
    origin = f"{named(answer.forked_from, more)} up to entry {answer.at}"
    screen.line(f"Created {named(answer.session_id, more)} as a copy of {origin}.")


def draw_pins(screen: Screen, answer: "Pins") -> None:
    """What is pinned."""
    name = named(answer.session_id, screen.signs.more)
    seqs = ", ".join(map(str, answer.pins))
    many = quantity(len(answer.pins), "message")
    text = f"{many} pinned in {name}: {seqs}." if seqs else f"Nothing is pinned in {name}."
    screen.line(_unchanged(answer.changed) + text)


def draw_title(screen: Screen, answer: "Titled") -> None:
    """The title."""
    title = one_line(answer.title) if answer.title else "(no title)"
    screen.line((named(answer.session_id, screen.signs.more), "title"), f"  {title}")
    if answer.changed is False:
        screen.line(_unchanged(answer.changed).strip())


def draw_verified(screen: Screen, answer: "Verified") -> None:
    """Every session with a problem, the first ones without one, and the sums."""
    rows = answer.sessions
    good = [row for row in rows if row.ok]
    shown = {row.session_id for row in good[:_GOOD]}
    for row in rows:
        if not row.ok or row.session_id in shown:
            _checked(screen, row)
    if left := len(good) - len(shown):
        screen.line((f"{screen.signs.more} and {left:,} more that are ok", "note"))
    if not rows:
        screen.line("No sessions.")
    elif len(rows) > 1:
        entries = quantity(sum(row.entries for row in rows), "entry", "entries")
        found = f"{len(rows) - len(good):,} bad" if len(good) < len(rows) else "all ok"
        style = "bad" if len(good) < len(rows) else "good"
        screen.line(f"{quantity(len(rows), 'session')}, {entries}: ", (found, style))


def _checked(screen: Screen, row: "Checked") -> None:
    style, word = ("good", "ok ") if row.ok else ("bad", "BAD")
    seq, head = row.seq, row.head
    where = "" if seq is None else f"entry {seq}: "
    checked = quantity(row.entries, "entry", "entries")
    if row.problem:
        checked += f", {where}{row.problem}"
    elif head.seq:
        checked += f", head {head.hash[:16]}"
    screen.line((f"{word} ", style), f"{named(row.session_id, screen.signs.more)}  {checked}")
    if row.rebuilt is not None:
        wrong = quantity(row.rebuilt, "row")
        screen.line(f"Recomputed the caches and corrected {wrong}.", indent=4)


def draw_backup(screen: Screen, answer: "Backup") -> None:
    """The copy, or the command that makes one."""
    if answer.bytes is not None:
        screen.line(f"Copied the database to {safe(answer.file)}, {size(answer.bytes)}.")
        return
    screen.line("PostgreSQL is backed up by its own program. Nothing was copied. Run:")
    screen.raw(safe(answer.command or ""), indent=2)


def draw_diagnosis(screen: Screen, answer: "Diagnosis") -> None:
    """A line for each finding."""
    screen.line((safe(answer.database), "title"))
    for finding in answer.findings:
        status = finding.status
        style = {"ok": "good", "note": "note", "warn": "warn", "bad": "bad"}[status]
        screen.line((f"{status:<4} ", style), f"{finding.check}: ", safe(finding.says))


def draw_schema(screen: Screen, answer: "SchemaVersion") -> None:
    """The two versions."""
    screen.facts([("schema", answer.current or "none"), ("needed by this release", answer.wanted)])


def draw_upgraded(screen: Screen, answer: "Upgraded") -> None:
    """What the upgrade did."""
    before, after = answer.before, answer.after
    if before is None:
        screen.line(f"Created the schema, version {after}.")
    elif before == after:
        screen.line(f"The schema is version {after}, which is what this release needs.")
    else:
        screen.line(f"Upgraded the schema from version {before} to {after}.")


def draw_head(screen: Screen, answer: "Head") -> None:
    """The head, exactly as it is to be saved."""
    screen.raw(visible_json(answer.to_json()))


def draw_history(screen: Screen, answer: "History") -> None:
    """A row for each migration."""
    for row in answer.revisions:
        mark = "applied" if row.applied else "missing"
        screen.whole(f"{row.revision}  {mark}  ", row.brought, "")


def _unchanged(changed: bool | None) -> str:  # noqa: FBT001 - as the documents have it
    return "Nothing changed. " if changed is False else ""


def _done(answer: "OutcomeReport") -> str:
    """Say what was done or would be: `Hid 2 messages behind a summary, entry 7.`."""
    dry_run = answer.dry_run
    if answer.status == "noop":
        verb = "would be" if dry_run else "was"
        return f"Nothing {verb} done. {one_line(answer.reason)}".rstrip()
    clear, hide = ("would clear", "hide") if dry_run else ("cleared", "hid")
    what = []
    if answer.cleared:
        what.append(f"{clear} {quantity(answer.cleared, 'tool output')}")
    elif dry_run:
        hide = "would hide"
    behind = {"condensed": " behind a summary", "truncated": " behind a marker"}
    if answer.hidden or not what:
        hidden = quantity(answer.hidden, "message") if answer.hidden else "no visible message"
        what.append(f"{hide} {hidden}{behind.get(answer.status, '')}")
    done = " and ".join(what)
    seqs = ranges_in_words([[seq, seq] for seq in answer.seqs])
    entries = "entry" if len(answer.seqs) == 1 else "entries"
    return f"{done[0].upper()}{done[1:]}{'' if dry_run else f', {entries} {seqs}'}."


def draw_view_change(screen: Screen, answer: "ViewChange", *, short: str) -> None:
    """What was done, how the view changed, its last message, and the command that reverses it.

    `short` is the id of the session, as short as it can be typed.
    """
    name = named(short, screen.signs.more)
    if answer.target is not None and answer.target_time is not None:
        when = zoned_time(answer.target_time)
        screen.line((f"The message is entry {answer.target}, from {when}.", "note"))
    if not answer.changed:
        screen.line(_already(answer, name))
        return
    done = f"{_changed(answer, name)} {_moved(answer)}."
    command = "" if answer.dry_run else next_command(short, "undo {}")
    verb = "Undo" if answer.undone is None else "Redo"
    reverse = f"{verb}: `{command}`" if command else ""
    if not reverse or cell_len(f"{done} {reverse}") <= screen.width:
        screen.line(f"{done} {reverse}".rstrip())
    else:  # a command is easier to copy on a line of its own
        screen.line(done)
        screen.line(reverse)
    if answer.seq is not None and not answer.dry_run:
        draw_next(screen, "Compare", next_command(short, f"diff {{}} {answer.seq - 1}"))
    if answer.last is not None:
        screen.line(
            ("The view would end with:" if answer.dry_run else "The view ends with:", "note")
        )
        timeline.draw_brief(screen, answer.last, " ", "")
    elif answer.uncovered is None:
        screen.line(f"The view {'would be' if answer.dry_run else 'is'} empty.")
    end = "Nothing was changed." if answer.dry_run else "Files of the project are untouched."
    screen.line((end, "note"))


def _already(answer: "ViewChange", name: str) -> str:
    if answer.uncovered is None:
        return f"{name} is already as it was after entry {answer.to}. Nothing changed."
    return (
        f"Entry {answer.uncovered} of {name} is already uncovered, by entry {answer.seq}."
        " Nothing changed."
    )


def _changed(answer: "ViewChange", name: str) -> str:
    dry = answer.dry_run
    if answer.undone is not None:
        return f"{'Would undo' if dry else 'Undid'} {answer.undone_kind} {answer.undone} of {name}."
    if answer.uncovered is not None:
        return f"{'Would uncover' if dry else 'Uncovered'} entry {answer.uncovered} of {name}."
    return f"{'Would rewind' if dry else 'Rewound'} {name} to entry {answer.to}."


def _moved(answer: "ViewChange") -> str:
    """How many messages left the view and came back, and how many outputs are shown again."""
    would = "would " * answer.dry_run
    parts = []
    if answer.left:
        left = quantity(answer.left, "message")
        parts.append(f"{left} {would}{'leave' if would else 'left'} the view")
    if answer.returned:
        came = f"{would}{'come' if would else 'came'} back"
        what = f"{answer.returned:,}" if parts else quantity(answer.returned, "message")
        parts.append(f"{what} {came}")
    if answer.restored:
        shown = "would be" if would else "is" if answer.restored == 1 else "are"
        parts.append(f"{quantity(answer.restored, 'tool output')} {shown} shown again")
    if not parts and answer.undone_kind == Kind.UNCOVERING:
        return f"Tool outputs {'would be' if would else 'are'} cleared again"
    return ", ".join(parts) or f"No message {would}{'leave' if would else 'left'} the view"


_SHOWN = 3
"""How many of the blocks are named that an export has left out."""
_LISTED = 20
"""How many files without sessions are listed, of those with which nothing is wrong."""


def draw_import(screen: Screen, answer: "Import") -> None:
    """Each session that has changed, each problem, and how many others there are."""
    changed = [one for one in answer.sessions if one.status != "unchanged" or one.problems]
    for one in changed:
        screen.line(_session(one, screen), indent=0)
        for problem in one.problems:
            screen.line((one_line(problem), "warn"), indent=2)
    usual = [one for one in answer.skipped if not one.is_problem]
    for skipped in (*usual[:_LISTED], *(one for one in answer.skipped if one.is_problem)):
        style = "warn" if skipped.is_problem else "note"
        screen.line((f"Skipped {one_line(skipped.path)}: {one_line(skipped.why)}.", style))
    if (rest := len(usual) - _LISTED) > 0:
        screen.line((f"Skipped {quantity(rest, 'more file')}.", "note"))
    would = "Would import" if answer.dry_run else "Imported"
    counts = Counter(one.status for one in answer.sessions)
    unchanged, failed = counts.pop("unchanged", 0), counts.pop("failed", 0)
    failures = f", {failed} failed" if failed else ""
    taken = quantity(counts.total(), "session")
    screen.line(f"{would} {taken}, {unchanged} unchanged{failures}.")


def draw_export(screen: Screen, answer: "Exported") -> None:
    """The files, and how large they are together."""
    name = named(answer.session_id, screen.signs.more)
    first, *others = answer.files
    more = f" and {quantity(len(others), 'more file')}" if others else ""
    screen.line(
        f"Wrote {name} as {answer.format} to {one_line(first)}{more}, {size(answer.bytes)}."
    )
    if line := left_out_line(answer.left_out):
        screen.line(line)


def left_out_line(missing: list[str]) -> str:
    """The line that says what an export could not write; empty if there is nothing."""
    if not missing:
        return ""
    rest = f" and {len(missing) - _SHOWN:,} more" if missing[_SHOWN:] else ""
    shown = one_line(", ".join(missing[:_SHOWN]))
    return f"Left out or made text, because only its provider knows it: {shown}{rest}."


def _session(one: "ImportedSession", screen: Screen) -> str:
    name = named(one.session_id, screen.signs.more) if one.session_id else "a session"
    what = quantity(one.messages, "message")
    if one.again:
        what += f" ({one.again} written again behind a summary)"
    what += f", {quantity(one.notes, 'note')}"
    if one.controls:
        what += f", {quantity(one.controls, 'control row')}"
    if one.redacted:
        what += f", {quantity(one.redacted, 'copy', 'copies')} of redacted messages erased"
    forked = f" from {named(one.forked_from, screen.signs.more)}" if one.forked_from else ""
    return f"{one.status}{forked}: {name}, {what}"
