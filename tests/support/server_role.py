"""A role of a PostgreSQL server that owns nothing, and the rights that it is given."""

import re
from typing import Any

import psycopg
from sqlalchemy import make_url


class Role:
    """A role of the server, which the owner grants rights."""

    def __init__(self, url: str) -> None:
        self.owner_url = url
        plain = make_url(url).set(drivername="postgresql")
        self._owner = psycopg.connect(plain.render_as_string(hide_password=False), autocommit=True)
        self.name = f"agent_{plain.database}"
        # The nodes of a cluster connect to each other as the role that asks.
        self._owner.execute(f'CREATE ROLE "{self.name}" LOGIN')
        self.url = make_url(url).update_query_dict({"options": f"-c role={self.name}"})

    def may(self, *grants: str) -> None:
        """Give it the rights of statements that name it `agent`."""
        for grant in grants:
            who = re.sub(r"\bagent\b", f'"{self.name}"', grant)
            self._owner.execute(who)

    def asked(self, query: str, *, owner: str | None = None) -> Any:
        """The first row of a query that it may make, for an owner of sessions."""
        with self._owner.transaction():
            self._owner.execute(f'SET LOCAL ROLE "{self.name}"')
            if owner is not None:
                # A plain server takes the first one too, and it means nothing there.
                self._owner.execute("SET LOCAL citus.propagate_set_commands = 'local'")
                self._owner.execute(f"SET LOCAL roocontext.owner = '{owner}'")
            return self._owner.execute(query).fetchone()

    def drop(self) -> None:
        # By name: CURRENT_USER crashes the server of a Citus coordinator.
        owner = self._owner.info.user
        self._owner.execute(f'REASSIGN OWNED BY "{self.name}" TO "{owner}"')
        self._owner.execute(f'DROP OWNED BY "{self.name}"')
        self._owner.execute(f'DROP ROLE "{self.name}"')
        self._owner.close()
