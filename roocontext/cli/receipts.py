"""What was done, drawn: one or two lines for each act, and what the proofs found."""

from roocontext.cli import histories, reports
from roocontext.cli.showing import Screen
from roocontext.cli.wording import counted, moment, named, one_line, plain, size


def appended(screen: Screen, answer: reports.Appended) -> None:
    """Where the message stands."""
    place = f"Entry {answer['seq']} of {named(answer['session_id'])}"
    if answer["new"]:
        screen.line(f"{place}, {answer['hash'][:16]}.")
        return
    back = answer["rewound_by"]
    since = "" if back is None else f" Rewind {back} has taken it back since."
    screen.line(f"{place} was stored before; nothing was written.{since}")


def outcome(screen: Screen, answer: reports.OutcomeReport) -> None:
    """What was done, by how much, and what the model would see if it was not."""
    screen.line(_done(answer))
    sign = "" if answer["exact"] else "~"
    arrow = screen.signs.arrow
    size_of = f"{sign}{answer['tokens_before']:,} {arrow} {sign}{answer['tokens_after']:,} tokens"
    source = answer["window_source"]
    window = f"{answer['window']:,}" + (" (no model is known)" if source == "default" else "")
    screen.line(
        f"{size_of} of {window}",
        (f" {screen.signs.dot} {answer['counter']}, {answer['policy']}", "note"),
    )
    for row in answer["view"] or []:
        histories.brief(screen, row, " ", "")


def rewound(screen: Screen, answer: reports.RewoundReport) -> None:
    """Where the session stands, and how the view changed."""
    name = named(answer["session_id"])
    if not answer["changed"]:
        screen.line(f"{name} is what it was after entry {answer['to']} already. Nothing changed.")
        return
    undone = answer["undone"]
    why = "" if undone is None else f", which takes back rewind {undone}"
    screen.line(f"{name} is what it was after entry {answer['to']}, by entry {answer['seq']}{why}.")
    left = counted(answer["left"], "message")
    screen.line(f"{left} left the view, {answer['returned']:,} came back into it.")


def forked(screen: Screen, answer: reports.Forked) -> None:
    """The new session."""
    origin = f"{plain(answer['forked_from'])} up to entry {answer['at']}"
    screen.line(f"{named(answer['session_id'])} begins as a copy of {origin}.")


def pins(screen: Screen, answer: reports.Pins) -> None:
    """What is pinned."""
    name = named(answer["session_id"])
    seqs = ", ".join(map(str, answer["pins"]))
    screen.line(f"Pinned in {name}: {seqs}." if seqs else f"Nothing is pinned in {name}.")


def titled(screen: Screen, answer: reports.Titled) -> None:
    """The title."""
    title = one_line(answer["title"]) if answer["title"] else "(no title)"
    screen.line((named(answer["session_id"]), "title"), f"  {title}")


def verified(screen: Screen, answer: reports.Verified) -> None:
    """A line for each session, and the problem where there is one."""
    for row in answer["sessions"]:
        style, word = ("good", "ok ") if row["ok"] else ("bad", "BAD")
        seq = row["seq"]
        where = "" if seq is None else f"entry {seq}: "
        what = f"{where}{row['problem']}" if row["problem"] else f"head {row['head']['hash'][:16]}"
        checked = counted(row["entries"], "entry", "entries")
        screen.line((f"{word} ", style), f"{named(row['session_id'])}  {checked}, {what}")
        if row["rebuilt"] is not None:
            wrong = counted(row["rebuilt"], "row")
            screen.line(f"The caches were computed anew: {wrong} had to be changed.", indent=4)
    if not answer["sessions"]:
        screen.line("No sessions.")


def redacted(screen: Screen, answer: reports.RedactedReport) -> None:
    """What was erased, and who may quote it still."""
    copies = [f"{plain(name)} {seq}" for name, seq in answer["copies"]]
    if answer["dry_run"]:
        screen.line(f"This would erase the content of entry {answer['seq']}.")
    elif answer["changed"]:
        screen.line(f"The content of entry {answer['seq']} is erased.")
    else:
        screen.line(f"The content of entry {answer['seq']} was erased before.")
    screen.line(f"Copies: {', '.join(copies)}.")
    if answer["summaries"]:
        quoting = [f"{plain(name)} {seq}" for name, seq in answer["summaries"]]
        screen.line(f"Summaries that may quote it: {', '.join(quoting)}.")
    _bytes(screen, dry_run=answer["dry_run"], erased=answer["erased"])


def purged(screen: Screen, answer: reports.PurgedReport) -> None:
    """The receipt."""
    what = f"{counted(answer['messages'], 'message')}, {size(answer['bytes'])}"
    name = named(answer["session_id"])
    if answer["dry_run"]:
        screen.line(f"This would delete all that was said in {name}: {what}.")
    else:
        when = moment(answer["purged_at"])
        screen.line(f"Deleted all that was said in {name}: {what}, {when}.")
        screen.line(f"Last hash: {answer['last_hash']}")
    _bytes(screen, dry_run=answer["dry_run"], erased=answer["erased"])


def diagnosis(screen: Screen, answer: reports.Diagnosis) -> None:
    """A line for each thing that was looked at."""
    screen.line((plain(answer["database"]), "title"))
    for finding in answer["findings"]:
        status = finding["status"]
        style = {"ok": "good", "note": "note", "warn": "warn", "bad": "bad"}[status]
        screen.line((f"{status:<4} ", style), f"{finding['check']}: ", plain(finding["says"]))


def schema(screen: Screen, answer: reports.SchemaRow) -> None:
    """The two versions."""
    screen.facts([("schema", answer["current"] or "none"), ("wanted", answer["wanted"])])


def upgraded(screen: Screen, answer: reports.Upgraded) -> None:
    """What the upgrade did."""
    before, after = answer["before"], answer["after"]
    if before == after:
        screen.line(f"The schema is {after} already.")
    else:
        screen.line(f"The schema was {before or 'none'} and is {after}.")


def history(screen: Screen, answer: reports.History) -> None:
    """A line for each migration."""
    for row in answer["revisions"]:
        mark = "applied" if row["applied"] else "missing"
        screen.line((f"{row['revision']}  {mark}  ", "title"), row["brought"])


def _done(answer: reports.OutcomeReport) -> str:
    dry_run = answer["dry_run"]
    if answer["status"] == "noop":
        return f"Nothing {'would be' if dry_run else 'was'} done. {one_line(answer['reason'])}"
    seqs = answer["seqs"]
    one = len(seqs) == 1
    name = f"Entry {seqs[0]}" if one else f"Entries {', '.join(map(str, seqs))}"
    what = [
        f"{'would ' * dry_run}{verb}{'s' * (one and not dry_run)} {counted(count, noun)}"
        for count, verb, noun in (
            (answer["cleared"], "clear", "output"),
            (answer["hidden"], "hide", "message"),
        )
        if count
    ]
    return f"{name} {' and '.join(what)}."


def _bytes(screen: Screen, *, dry_run: bool, erased: bool) -> None:
    if not dry_run:
        gone = (
            "The bytes are out of the file."
            if erased
            else ("Bytes may be left in the database's log, free space or backups.")
        )
        screen.line((gone, "note"))
