"""PostgreSQL's checks of each append."""

import pytest

from migration.conftest import Raw
from migration.test_checks import REFUSED, _insert
from roocontext import Store

CHECKS = (
    "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE contype = 'c'"
    " AND conrelid = '{}'::regclass ORDER BY 1"
)
REFUSE = (
    "CREATE FUNCTION refuse() RETURNS event_trigger LANGUAGE plpgsql AS"
    " $$ BEGIN RAISE EXCEPTION 'no functions' USING ERRCODE = 'feature_not_supported'; END $$"
)
REFUSE_FUNCTIONS = (
    "CREATE EVENT TRIGGER no_functions ON ddl_command_start WHEN TAG IN ('CREATE FUNCTION')"
    " EXECUTE FUNCTION refuse()"
)


@pytest.mark.parametrize("stored", ["postgres"], indirect=True)
def test_append_is_checked_by_a_function(stored: Raw) -> None:
    """The server would parse the text of other checks anew in each append."""
    for table in ("sessions", "entries"):
        ((check,),) = stored.run(CHECKS.format(table))
        # Single columns, which a distributed engine can pass on; a whole row it cannot.
        assert check.startswith(f"CHECK (roocontext_{table}_rules("), table
        assert ".*" not in check, table


@pytest.mark.parametrize("raw", ["postgres"], indirect=True)
def test_server_that_refuses_functions_checks_by_itself(raw: Raw) -> None:
    raw.run(REFUSE)
    raw.run(REFUSE_FUNCTIONS)
    with Store.open(raw.url) as store:
        chat = store.create("s")
        chat.append("user", "hello")
        assert len(raw.run(CHECKS.format("entries"))) > 1
        for table, changes in REFUSED.values():
            if table in ("sessions", "entries"):
                assert "check" in raw.refuses(_insert(table, changes)).lower(), changes
        assert chat.verify().ok
