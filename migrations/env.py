"""Runs the migrations on the connection that the caller gives, in the caller's transaction."""

from alembic import context

from roocontext.store.engine.schema import ALIKE, VERSION_TABLE, with_indexes

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=with_indexes(),
    version_table=VERSION_TABLE,
    render_as_batch=True,
    transactional_ddl=False,  # the transaction is the caller's, on SQLite too
    include_object=lambda _object, name, kind, _reflected, _compare: (
        kind != "table" or name in ALIKE
    ),
)
context.run_migrations()
