"""The grants that the guide lists are enough for an agent, and no more than it needs."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from roocontext import ContextManager, NewMessage, Plan, Session, Store
from roocontext.errors import RooContextError, StoreReadOnly
from roocontext.store.engine.roles import grants
from support.damage import READING, WRITING, build
from support.examples import everyday
from support.server_role import Role

PAGE = Path(__file__).parents[3] / "docs" / "operations" / "postgres.md"
GRANTS = re.findall(r"^GRANT .* TO agent;$", PAGE.read_text(), re.MULTILINE)
CALL = {"type": "tool_use", "id": "t1", "name": "run", "input": {"command": "make"}}


@pytest.fixture
def role(postgres_url: str) -> Iterator[Role]:
    made = Role(postgres_url)
    yield made
    made.drop()


@pytest.fixture(scope="module")
def limited(postgres: Any) -> Iterator[Role]:
    """A role whose rights every test takes away again."""
    url = postgres.fresh()
    made = Role(url)
    yield made
    made.drop()
    postgres.drop(url)


def everything(store: Store, name: str = "one") -> Session:
    """All that an agent does, from a new session to a search."""
    chat = store.create(name, title="Fix it", metadata={"branch": "main"})
    first = chat.append("user", "Why does the parser fail?", client_id="r1", message_id="m1").seq
    chat.append("assistant", [CALL], model="gpt-4o", usage={"prompt_tokens": 9})
    (call,) = chat.pending()
    chat.begin(call)
    chat.answer(call, "It fails. " * 400)
    many = [NewMessage("user" if n % 2 else "assistant", f"word {n} " * 90) for n in range(40)]
    chat.append_many(many)
    chat.note("remark", {"text": "seen"})
    chat.set_title("Fixed")
    chat.set_metadata({"branch": "other"})
    chat.pin(first)
    chat.unpin(first)
    view = chat.view()
    seqs = [message.seq for message in view.messages[4:8]]
    hidden = chat.commit(Plan.condense(view, seqs, "In short."))
    chat.uncover(hidden.seq)
    chat.commit(Plan.clear(chat.view(), [(chat.view().messages[2].seq, 0)]))
    chat.rewind(to=chat.view().messages[9].seq)
    chat.undo()
    assert ContextManager("gpt-4o", limit=4_000, clock=lambda: 0).manage(chat).status != "noop"
    assert chat.tokens("o200k_base")
    copy = chat.fork(session_id=f"copy of {name}")
    store.create(f"child of {name}", parent=name).append("user", "Look.")
    assert store.index()
    assert store.search("parser")
    copy.append("user", "The parser again.")
    assert store.index(anew=True)
    assert store.search("again")
    assert store.sessions(where={"branch": "other"})
    assert chat.verify().ok
    chat.rebuild()
    stale = chat.turn(lease=0.1).__enter__()
    store._opened.renewer.remove(stale)
    with chat.turn(wait=30) as turn:
        turn.set_title("Done")
    return chat


def test_guide_shows_what_the_command_prints():
    assert grants("agent", erase=False) == GRANTS


ERASING = {"redact", "purge", "purge again", "purge by a rule", "archive"}
REFUSED = {
    *("hidden_by", "keep_extract", "commit", "commit in a dry run", "uncover", "create"),
    *("rewind to no name", "rewind to a time"),
}
"""The calls that have nothing to do in the session, whatever the role; `everything` makes them."""


@pytest.mark.parametrize("erase", [True, False])
def test_printed_grants_are_enough_for_every_call(role, *, erase):
    """Each call has a session in which it has something to do.

    The right to erase takes no other right away.
    """
    calls = {**READING, **WRITING}
    asked = everyday(sorted(ERASING), sorted(calls)) if erase else sorted(calls)
    role.may(*grants("agent", erase=erase))
    refused, forbidden = set(), set()
    with Store.open(role.url, upgrade=False) as store, Store.open(role.owner_url) as owner:
        built = build(owner)
        for name in asked:
            chat = built.id if name in READING else built.fork().id
            try:
                calls[name](store, store.session(chat))
            except StoreReadOnly:
                forbidden.add(name)
            except RooContextError:
                refused.add(name)
            if erase and name in ERASING:  # also that from which the others are forked, it may be
                built = build(owner)
    assert forbidden == (set() if erase else ERASING)
    assert refused == REFUSED & {*asked}


def test_role_in_grants_is_quoted():
    for role, quoted in {'Ann"s': '"Ann""s"', "user": '"user"'}.items():
        assert all(line.endswith(f" TO {quoted};") for line in grants(role))


def without(grant: str) -> Iterator[tuple[str, str, list[str]]]:
    """Each right of a grant: its name, its table, and all grants without it."""
    rights, tables = re.fullmatch(r"GRANT (.*) ON (.*) TO agent;", grant).groups()  # type: ignore[union-attr]  # it is a grant
    for table in tables.split(", "):
        for right in rights.split(", "):
            yield right, table, [*GRANTS, f"REVOKE {right} ON {table} FROM agent"]


# Only stores with an owner call the function; their tests show that it is needed.
RIGHTS = [one for grant in GRANTS if "FUNCTION" not in grant for one in without(grant)]
VIEWS = {"messages", "effective_history"}


@pytest.mark.parametrize(
    ("right", "table", "granted"),
    [one for one in RIGHTS if one[1] not in VIEWS],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_error_names_the_table_of_a_right_that_is_missing(limited, right, table, granted):
    limited.may(*granted)
    with pytest.raises(StoreReadOnly) as caught, Store.open(limited.url, upgrade=False) as store:
        everything(store, f"{right} {table}")
    assert caught.value.table == table
    assert f"on the table {table} (42501" in str(caught.value)
    assert "GRANT" in caught.value.advice


def test_views_can_be_read(role):
    role.may(*GRANTS)
    for view in VIEWS:
        assert role.asked(f"SELECT count(*) FROM {view}") == (0,)
