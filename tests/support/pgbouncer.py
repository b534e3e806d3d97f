"""PgBouncer in transaction mode before the tests' PostgreSQL.

ROOCONTEXT_PGBOUNCER names the program, if it is not the one that Debian installs.
"""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
from sqlalchemy import make_url

GIVEN = "ROOCONTEXT_PGBOUNCER"
NOBODY = 65_534


def bouncers() -> list[str]:
    """The program, if there is one: a test that takes it has no case otherwise."""
    found = os.environ.get(GIVEN) or shutil.which("pgbouncer", path="/usr/sbin:/usr/bin")
    return [found] if found else []


@contextmanager
def pooled(program: str, url: str, *, connections: int, role: str | None = None) -> Iterator[str]:
    """The URL of the same database through a pooler with so many connections, as a role."""
    there = make_url(url)
    with tempfile.TemporaryDirectory(prefix="bouncer-") as folder, psycopg.connect(url) as known:
        home = Path(folder)
        home.chmod(0o755)
        info = known.info
        port = _free_port()
        (home / "pgbouncer.ini").write_text(
            "[databases]\n"
            f"* = host='{info.host}' port={info.port} user='{role or info.user}'\n"
            "[pgbouncer]\n"
            f"listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n"
            f"pool_mode = transaction\ndefault_pool_size = {connections}\n"
            "max_client_conn = 1000\nauth_type = any\n"
            "ignore_startup_parameters = extra_float_digits\n"
        )
        # It refuses to run as root; who owns the server's socket may use it.
        owner = Path(info.host).stat().st_uid if info.host.startswith("/") else NOBODY
        user = owner if os.geteuid() == 0 else None
        process = subprocess.Popen(
            [program, "-q", str(home / "pgbouncer.ini")],
            user=user,
            group=user,
            extra_groups=[] if user else None,
            stderr=subprocess.DEVNULL,
        )
        try:
            _wait_for(port)
            yield there.set(host="127.0.0.1", port=port, query={}).render_as_string(
                hide_password=False
            )
        finally:
            process.terminate()
            process.wait()


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def _wait_for(port: int) -> None:
    for _ in range(400):
        with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.025)
    raise AssertionError("the pooler did not start")
