"""The last line of a summary: which entries it hides, and the tools that find them."""

import pytest

from roocontext import ContextManager, Store
from roocontext.log.summary import hidden_in, hidden_line, without_hidden_line

LINE = (
    "[Hidden behind this summary: entries 1-{}. If a detail is missing here, find it with"
    " search_history or read_history.]"
)


POLICIES = ["default", "gemini", "hybrid", "opencode"]


class Scribe:
    """Writes what it is told, and keeps what it was asked."""

    name = "scribe"

    def __init__(self):
        self.asked = []
        self.says = "S"

    def __call__(self, request):
        self.asked.append(request)
        return self.says


@pytest.fixture
def chat():
    with Store.open(":memory:") as store:
        yield store.create()


def talk(chat, count):
    for number in range(count):
        role = "user" if number % 2 == 0 else "assistant"
        chat.append(role, f"{number} " + "many words " * 60)


def summary_of(chat):
    (found,) = [row for row in chat.view().messages if row.kind == "summary"]
    return found.content


def manager(scribe, policy="default", *, recall=True):
    return ContextManager(
        policy=policy, limit=2_000, counter="opencode", summariser=scribe, recall=recall
    )


@pytest.mark.parametrize("policy", POLICIES)
def test_summary_ends_with_what_it_hides(chat, policy):
    talk(chat, 20)
    manager(Scribe(), policy).condense(chat)
    hidden = [one.seq for one in chat.audit() if one.condense_parent]
    assert summary_of(chat).endswith(f"S\n\n{LINE.format(hidden[-1])}")
    assert hidden[0] == 1


@pytest.mark.parametrize("policy", POLICIES)
def test_line_is_not_carried_into_the_next_summary(chat, policy):
    scribe = Scribe()
    context = manager(scribe, policy)
    talk(chat, 20)
    context.condense(chat)
    talk(chat, 20)
    scribe.says = f"T\n\n{LINE.format(7)}"
    context.condense(chat)
    assert scribe.asked[-1].previous == "S"
    last = max(one.seq for one in chat.audit() if one.condense_parent and one.kind == "message")
    assert summary_of(chat).endswith(f"T\n\n{LINE.format(last)}")
    assert last > 20


def test_summary_that_is_summarised_alone_is_read_without_its_line(chat):
    scribe = Scribe()
    scribe.says = "S " * 800
    talk(chat, 20)
    manager(scribe).condense(chat)
    last = hidden_in(summary_of(chat))[1]
    scribe.says = "T"
    ContextManager(limit=900, counter="opencode", summariser=scribe, recall=True).manage(chat)
    (message,) = scribe.asked[-1].messages
    assert "search_history" not in str(message)
    assert summary_of(chat).endswith(f"\n\nT\n\n{LINE.format(last)}")


def test_summary_without_recall_names_no_tool(chat):
    scribe = Scribe()
    talk(chat, 20)
    manager(scribe).condense(chat)
    talk(chat, 20)
    manager(scribe, recall=False).condense(chat)
    assert summary_of(chat).endswith("\n\nS")
    assert scribe.asked[-1].previous == "S"


@pytest.mark.parametrize(
    "text",
    ["", "S", "entries 1-5", "[Hidden behind this summary: entries a-5.]", LINE.format(3) + "\nx"],
)
def test_other_last_lines_are_left_alone(text):
    assert hidden_in(text) is None
    assert without_hidden_line(text) == text


def test_line_is_read_as_it_is_written():
    text = f"S\n\n{hidden_line((2, 57))}"
    assert hidden_in(text) == (2, 57)
    assert without_hidden_line(text) == "S"
