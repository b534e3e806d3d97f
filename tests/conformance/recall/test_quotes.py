"""A redaction lists the rows that quote the message, wherever the answer was stored."""

import pytest

from roocontext import Plan
from roocontext.log.entries import Quote, quotes_of, quoting
from support.dialogue import fill

SECRET = "hunter2-the-secret-password"


def quote(chat, *quotes):
    return chat.append("user", SECRET, extra=quoting(quotes)).seq


def test_redaction_lists_the_rows_that_quote_the_message(chat):
    fill(chat, 5)
    quoting_it = [quote(chat, Quote(None, 2, 2)), quote(chat, Quote(chat.id, 1, 3))]
    quote(chat, Quote(None, 4, 5), Quote("another", 2, 2))
    dry = chat.redact(2, dry_run=True)
    assert dry.quotes == tuple((chat.id, seq) for seq in quoting_it)
    assert chat.redact(2).quotes == dry.quotes
    assert chat.redact(2).quotes == dry.quotes, "a later look lists them again"
    assert chat.redact(4).quotes == ((chat.id, 8),)


def test_redacted_quote_is_listed_no_more(chat):
    fill(chat, 2)
    first, second = quote(chat, Quote(None, 1, 1)), quote(chat, Quote(None, 1, 1))
    chat.redact(first)
    assert chat.redact(1).quotes == ((chat.id, second),)


def test_quotes_are_found_in_ancestors_and_in_forks(store):
    top = store.create()
    child = store.create(parent=top.id)
    grandchild = store.create(parent=child.id)
    stranger = store.create()
    for chat in (top, child, grandchild, stranger):
        fill(chat, 2)
    quote(top, Quote(grandchild.id, 2, 2))
    quote(stranger, Quote(grandchild.id, 2, 2))
    quote(grandchild, Quote(None, 1, 2))
    forks = [top.fork(), grandchild.fork()]
    wanted = {(chat.id, 3) for chat in (top, grandchild, *forks)}
    found = grandchild.redact(2).quotes
    assert found == tuple(sorted(wanted))


def test_fork_outlives_the_session_that_it_quotes(store):
    chat = store.create()
    fill(chat, 2)
    quote(chat, Quote(None, 1, 1))
    fork = chat.fork()
    store.purge(chat.id)
    assert fork.redact(1).quotes == ((fork.id, 3),)


def test_summaries_of_quotes_and_quotes_of_summaries_are_listed(chat):
    written = fill(chat, 2)
    answer = quote(chat, Quote(None, 1, 1))
    rest = fill(chat, 2)
    first = chat.commit(Plan.condense(chat.view(), [answer], "S")).seq
    chat.commit(Plan.condense(chat.view(), rest[:1], "of none of them"))
    second = chat.commit(Plan.condense(chat.view(), [written[1], first], "T")).seq
    told = quote(chat, Quote(None, second, second))
    third = chat.commit(Plan.condense(chat.view(), [told], "U")).seq
    done = chat.redact(1)
    assert done.quotes == ((chat.id, answer), (chat.id, told))
    assert done.summaries == tuple((chat.id, seq) for seq in (first, second, third))


@pytest.mark.values_on_one_leg
@pytest.mark.parametrize(
    "extra",
    [
        None,
        [],
        "quoted_entries",
        {"quoted_entries": None},
        {"quoted_entries": [[None, 0, 1]]},
        {"quoted_entries": [[None, 2, 1]]},
        {"quoted_entries": [[None, 1, 1, 1]]},
        {"quoted_entries": [[None, 1, 1], ["s", 1.5, 2]]},
        {"quoted_entries": {"quoted_entries": [[None, 1, 1]]}},
    ],
)
def test_other_data_of_an_agent_are_no_quotes(store, extra):
    chat = store.create()
    fill(chat, 1)
    chat.append("user", "x", extra=extra)
    assert quotes_of(extra) == ()
    assert chat.redact(1).quotes == ()
