"""Changes that are sent to a PostgreSQL server together with their COMMIT: all of them or none."""

import pytest

from roocontext import Plan
from roocontext.errors import StoreUnavailable
from support.citus_server import UNSAFE
from support.dialogue import fill, state

REFUSAL = "RAISE EXCEPTION 'not today'"
HANG_UP = "PERFORM pg_terminate_backend(pg_backend_pid())"
AT_ONCE, AT_THE_END = "", "DEFERRABLE INITIALLY DEFERRED"
"""When a trigger runs: with its statement, or with the COMMIT."""
CHANGES = {
    "rewind": lambda chat: chat.rewind(to=2),
    "undo": lambda chat: chat.undo(),
    "condense": lambda chat: chat.commit(Plan.condense(chat.view(), [1, 2], "S")),
    "uncover": lambda chat: chat.uncover(5),
}


@pytest.fixture(scope="module")
def lab(opened, postgres):
    with opened("postgres", "sync") as lab:
        yield lab


@pytest.fixture
def chat(lab):
    """A session that can be rewound, undone, condensed and uncovered."""
    chat = lab.store.create()
    fill(chat, 4)
    chat.commit(Plan.condense(chat.view(), [3, 4], "S"))
    chat.append("user", "so")
    chat.rewind(to=5)
    return chat


@pytest.fixture
def tripped(lab):
    """Lets each change of a table run something."""

    def trip(table, run, when):
        lab.sql(
            UNSAFE,
            f"CREATE FUNCTION trip() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {run};"
            " RETURN NULL; END $$",
            f"CREATE CONSTRAINT TRIGGER trip AFTER INSERT OR UPDATE OR DELETE ON {table} {when}"
            " FOR EACH ROW EXECUTE FUNCTION trip()",
        )

    yield trip
    lab.sql("DROP FUNCTION trip() CASCADE")


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("table", ["entries", "sessions", "spans"])
@pytest.mark.parametrize("when", [AT_ONCE, AT_THE_END], ids=["at once", "at the end"])
def test_nothing_is_committed_if_a_statement_or_the_commit_fails(
    lab, chat, tripped, name, table, when
):
    before = state(chat)
    tripped(table, REFUSAL, when)
    with pytest.raises(StoreUnavailable) as caught:
        CHANGES[name](chat)
    # A coordinator does not know what became of the COMMIT of its node.
    assert not caught.value.outcome_unknown or caught.value.code == "XX000"
    lab.sql(UNSAFE, f"ALTER TABLE {table} DISABLE TRIGGER trip")
    assert state(chat) == before
    assert CHANGES[name](chat).seq
    assert chat.verify().ok


@pytest.mark.parametrize("name", CHANGES)
def test_connection_that_breaks_during_the_commit_leaves_the_outcome_unknown(
    lab, chat, tripped, name
):
    before = state(chat)
    tripped("spans", HANG_UP, AT_THE_END)
    with pytest.raises(StoreUnavailable) as caught:
        CHANGES[name](chat)
    assert caught.value.outcome_unknown
    assert state(chat) == before
