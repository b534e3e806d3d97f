"""The results of commands, in a few lines each."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len

from roocontext.cli.screens import timeline
from roocontext.cli.screens.next_commands import draw_next, next_command
from roocontext.cli.screens.safe_text import one_line, safe, visible_json
from roocontext.cli.screens.screen import Screen
from roocontext.log.entries import Kind
from roocontext.reports.naming import quantity, ranges_in_words, size
from roocontext.reports.times import zoned_time

if TYPE_CHECKING:
    from roocontext import Head, Receipt
    from roocontext.reports import results as documents
    from roocontext.reports.health import Diagnosis
    from roocontext.reports.transfers import Exported, Import, ImportedSession
    from roocontext.reports.undo import ViewChange
    from roocontext.store.engine.migrate import SchemaVersion


_GOOD = 20
"""How many sessions without a problem are listed."""


def draw_receipt(screen: Screen, answer: "Receipt") -> None:
    """The entry that was written."""
    name = screen.name(answer.session_id)
    if answer.new:
        screen.line(f"Appended entry {answer.seq} to {name}, hash {answer.hash[:16]}.")
        return
    back = answer.rewound_by
    since = "" if back is None else f" Rewind {back} has taken it back since."
    screen.line(f"Entry {answer.seq} of {name} was stored before. Nothing was written.{since}")


def draw_outcome(screen: Screen, answer: "documents.OutcomeReport") -> None:
    """The change, the sizes before and after, and the view that a preview leaves."""
    screen.line(_done(answer))
    sign = "" if answer.exact else "~"
    before, after = answer.tokens_before, answer.tokens_after
    has_changed = bool(answer.seqs or answer.uncovered)
    arrow = f"{screen.signs.arrow} {sign}{after:,} " if has_changed else ""
    noun = "token" if (after if has_changed else before) == 1 else "tokens"
    screen.line(f"{sign}{before:,} {arrow}{noun} of {answer.window:,}")
    about = [f"policy {one_line(answer.policy)}", f"counted by {one_line(answer.counter)}"]
    about += ["no model is known"] * (answer.window_source == "default")
    screen.line((f" {screen.signs.dot} ".join(about), "note"))
    if after > before and not answer.uncovered:
        would = "would grow" if answer.dry_run else "grew"
        screen.line(
            f"The context {would} by {quantity(after - before, 'token')}, as in the program that"
            f" policy {answer.policy} imitates."
        )
    for name, count in answer.excess.items():
        screen.line((f"That is {count:,} {one_line(name)} over the limit.", "warn"))
    for row in answer.view or []:
        timeline.draw_brief(screen, row, " ", "")


def draw_forked(screen: Screen, answer: "documents.Forked") -> None:
    """The new session."""
    origin = f"{screen.name(answer.forked_from)} up to entry {answer.at}"
    screen.line(f"Created {screen.name(answer.session_id)} as a copy of {origin}.")


def draw_pins(screen: Screen, answer: "documents.Pins") -> None:
    """The pinned messages."""
    name = screen.name(answer.session_id)
    seqs = ", ".join(map(str, answer.pins))
    many = quantity(len(answer.pins), "message")
    text = f"{many} pinned in {name}: {seqs}." if seqs else f"Nothing is pinned in {name}."
    screen.line(_unchanged(answer.changed) + text)


def draw_title(screen: Screen, answer: "documents.Titled") -> None:
    """The title."""
    title = one_line(answer.title) if answer.title else "(no title)"
    screen.line((screen.name(answer.session_id), "title"), f"  {title}")
    if answer.changed is False:
        screen.line(_unchanged(answer.changed).strip())


def draw_verified(screen: Screen, answer: "documents.Verified") -> None:
    """Every session with a problem, the first sessions without a problem, and the sums."""
    rows = answer.sessions
    good = [row for row in rows if row.ok]
    listed = {row.session_id for row in good[:_GOOD]}
    for row in rows:
        if not row.ok or row.session_id in listed:
            _checked(screen, row)
    if left := len(good) - len(listed):
        screen.line((f"{screen.signs.more} and {left:,} more that are ok", "note"))
    if not rows:
        screen.line("No sessions.")
    elif len(rows) > 1:
        entries = quantity(sum(row.entries for row in rows), "entry", "entries")
        bad = len(rows) - len(good)
        verdict = (f"{bad:,} bad", "bad") if bad else ("all ok", "good")
        screen.line(f"{quantity(len(rows), 'session')}, {entries}: ", verdict)


def _checked(screen: Screen, row: "documents.Checked") -> None:
    verdict = ("ok  ", "good") if row.ok else ("BAD ", "bad")
    checked = quantity(row.entries, "entry", "entries")
    if row.problem:
        where = "" if row.seq is None else f"entry {row.seq}: "
        checked += f", {where}{row.problem}"
    elif row.head.seq:
        checked += f", head {row.head.hash[:16]}"
    screen.line(verdict, f"{screen.name(row.session_id)}  {checked}")
    if row.rebuilt is not None:
        wrong = quantity(row.rebuilt, "row")
        screen.line(f"Recomputed the caches and corrected {wrong}.", indent=4)


def draw_backup(screen: Screen, answer: "documents.Backup") -> None:
    """The copy, or the command that makes a copy."""
    if answer.bytes is not None:
        screen.line(f"Copied the database to {safe(answer.file)}, {size(answer.bytes)}.")
        return
    screen.line("PostgreSQL is backed up by its own program. Nothing was copied. Run:")
    screen.raw(safe(answer.command or ""), indent=2)


def draw_diagnosis(screen: Screen, answer: "Diagnosis") -> None:
    """A line for each finding."""
    screen.line((safe(answer.database), "title"))
    for finding in answer.findings:
        style = "good" if finding.status == "ok" else finding.status
        screen.line((f"{finding.status:<4} ", style), f"{finding.check}: ", safe(finding.says))


def draw_schema(screen: Screen, answer: "SchemaVersion") -> None:
    """The two versions."""
    screen.facts(
        [
            ("schema", answer.current or "none"),
            ("needed by this release", answer.wanted),
            ("oldest release that may use it", answer.oldest_release or "none"),
        ]
    )


def draw_upgraded(screen: Screen, answer: "documents.Upgraded") -> None:
    """The versions before and after an upgrade."""
    before, after = answer.before, answer.after
    if answer.needed:
        made = "created" if before is None else f"upgraded from version {before}"
        screen.line(f"The schema has to be {made}, to version {after}.")
    elif before is None:
        screen.line(f"Created the schema, version {after}.")
    elif before == after:
        screen.line(f"The schema is version {after}, with which this release works.")
    else:
        screen.line(f"Upgraded the schema from version {before} to {after}.")
    if answer.distributed:
        screen.line("The store is distributed over the nodes of its cluster.")


def draw_distributed(screen: Screen, answer: "documents.Distributed") -> None:
    """The rows of each table, or the steps of a dry run."""
    if not answer.steps:
        screen.line("The store is distributed already. Nothing changed.")
    elif answer.dry_run:
        screen.raw("\n".join(f"{safe(step)};" for step in answer.steps))
    else:
        screen.line("Distributed the store. Its tables have as many rows as before:")
        screen.facts([(table, f"{rows:,}") for table, rows in answer.rows.items()])


def draw_grants(screen: Screen, answer: "documents.Granted") -> None:
    """The statements, to be run by the owner."""
    screen.raw("\n".join(safe(statement) for statement in answer.statements))


def draw_secured(screen: Screen, answer: "documents.Secured") -> None:
    """The statements of a dry run, or that they were run."""
    if answer.dry_run:
        screen.raw("\n".join(f"{safe(step)};" for step in answer.steps))
    else:
        screen.line(
            "Secured the database. Restart programs that opened it without an owner: unless they"
            " are administrators, they see no session now."
        )


def draw_head(screen: Screen, answer: "Head") -> None:
    """The head, exactly as it should be saved."""
    screen.raw(visible_json(answer.to_json()))


def draw_history(screen: Screen, answer: "documents.History") -> None:
    """A row for each migration."""
    for row in answer.revisions:
        mark = "applied" if row.applied else "missing"
        screen.whole_row(f"{row.revision}  {mark}  ", row.brought, "")


def _unchanged(changed: bool | None) -> str:  # noqa: FBT001 - as the documents have it
    return "Nothing changed. " if changed is False else ""


def _done(answer: "documents.OutcomeReport") -> str:
    """Say what was done, or would be: `Replaced 2 messages with a summary, entry 7.`."""
    dry_run = answer.dry_run
    if answer.status == "noop":
        verb = "would be" if dry_run else "was"
        return f"Nothing {verb} done. {one_line(answer.reason)}".rstrip()
    parts = []
    if answer.uncovered:
        uncover = "uncover" if dry_run else "uncovered"
        parts.append(f"{uncover} {quantity(len(answer.uncovered), 'compaction')} by a provider")
    if answer.status == "uncovered":
        return _sentence(answer, parts, answer.uncovered)
    if answer.cleared:
        clear = "clear" if dry_run else "cleared"
        parts.append(f"{clear} {quantity(answer.cleared, 'tool output')}")
    if answer.hidden or not parts:
        replace = "replace" if dry_run else "replaced"
        messages = quantity(answer.hidden, "message") if answer.hidden else "no visible message"
        substitute = "a marker" if answer.status == "truncated" else "a summary"
        parts.append(f"{replace} {messages} with {substitute}")
    return _sentence(answer, parts, answer.seqs)


def _sentence(answer: "documents.OutcomeReport", parts: Sequence[str], rows: Sequence[int]) -> str:
    done = " and ".join(parts)
    if answer.dry_run:
        return f"Would {done}."
    seqs = ranges_in_words([[seq, seq] for seq in sorted(rows)])
    entries = "entry" if len(rows) == 1 else "entries"
    return f"{done[0].upper()}{done[1:]}, {entries} {seqs}."


def draw_view_change(screen: Screen, answer: "ViewChange", *, short: str) -> None:
    """The change, the messages that left and came, the last message, and how to reverse it.

    `short` is the shortest id of the session that can be typed.
    """
    name = screen.name(short)
    if answer.target is not None and answer.target_time is not None:
        when = zoned_time(answer.target_time)
        screen.line((f"The message is entry {answer.target}, from {when}.", "note"))
    if not answer.changed:
        screen.line(_already(answer, name))
        return
    done = f"{_changed(answer, name)} {_moved(answer)}."
    command = "" if answer.dry_run else next_command(short, "undo {}")
    verb = "Undo" if answer.undone is None else "Redo"
    reverse = f" {verb}: `{command}`" if command else ""
    if cell_len(done + reverse) <= screen.width or not reverse:
        screen.line(done + reverse)
    else:  # a command that is not wrapped is easier to copy
        screen.line(done)
        screen.line(reverse.strip())
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
    """The messages that left the view and came back, and the outputs shown again, as numbers."""
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
        verb = "would be" if would else "is" if answer.restored == 1 else "are"
        parts.append(f"{quantity(answer.restored, 'tool output')} {verb} shown again")
    if not parts and answer.undone_kind == Kind.UNCOVERING:
        return f"Tool outputs {'would be' if would else 'are'} cleared again"
    return ", ".join(parts) or f"No message {would}{'leave' if would else 'left'} the view"


_SHOWN = 3
"""How many of the blocks that an export has left out are named."""
_LISTED = 20
"""How many of the files without sessions, and without a problem, are listed."""


def draw_import(screen: Screen, answer: "Import") -> None:
    """Each session that has changed, each problem, and how many others there are."""
    for session in answer.sessions:
        if session.status == "unchanged" and not session.problems:
            continue
        screen.line(_session(session, screen))
        for problem in session.problems:
            screen.line((one_line(problem), "warn"), indent=2)
    usual = [file for file in answer.skipped if not file.is_problem]
    for file in (*usual[:_LISTED], *(file for file in answer.skipped if file.is_problem)):
        style = "warn" if file.is_problem else "note"
        screen.line((f"Skipped {one_line(file.path)}: {one_line(file.why)}.", style))
    if (rest := len(usual) - _LISTED) > 0:
        screen.line((f"Skipped {quantity(rest, 'more file')}.", "note"))
    would = "Would import" if answer.dry_run else "Imported"
    counts = Counter(session.status for session in answer.sessions)
    unchanged, failed = counts.pop("unchanged", 0), counts.pop("failed", 0)
    failures = f", {failed} failed" if failed else ""
    taken = quantity(counts.total(), "session")
    screen.line(f"{would} {taken}, {unchanged} unchanged{failures}.")


def draw_export(screen: Screen, answer: "Exported") -> None:
    """The files, and their size together."""
    name = screen.name(answer.session_id)
    first, *others = answer.files
    more = f" and {quantity(len(others), 'more file')}" if others else ""
    screen.line(
        f"Wrote {name} as {answer.format} to {one_line(first)}{more}, {size(answer.bytes)}."
    )
    if line := left_out_line(answer.left_out):
        screen.line(line)


def left_out_line(missing: list[str]) -> str:
    """A line about the content that an export could not write; empty if there is none."""
    if not missing:
        return ""
    rest = f" and {len(missing) - _SHOWN:,} more" if missing[_SHOWN:] else ""
    names = one_line(", ".join(missing[:_SHOWN]))
    return f"Left out or made text, because only its provider knows it: {names}{rest}."


def _session(session: "ImportedSession", screen: Screen) -> str:
    name = screen.name(session.session_id) if session.session_id else "a session"
    what = quantity(session.messages, "message")
    if session.again:
        what += f" ({session.again} written again after a summary)"
    what += f", {quantity(session.notes, 'note')}"
    if session.controls:
        what += f", {quantity(session.controls, 'control row')}"
    if session.redacted:
        what += f", {quantity(session.redacted, 'copy', 'copies')} of redacted messages erased"
    forked = f" from {screen.name(session.forked_from)}" if session.forked_from else ""
    return f"{session.status}{forked}: {name}, {what}"
