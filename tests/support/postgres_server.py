"""A PostgreSQL server of the tests, from Debian's package."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from support.packages import required
from support.processes import DIES_WITH_ITS_PARENT
from support.sessions import eventually


class PostgresServer:
    """A server at a Unix socket; it refuses to run as root."""

    def __init__(self, **settings):
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
        self._programs = required(found[-1] if found else None, "postgresql")
        # Only root can enter the folders of pytest.
        folder = self._folder = Path(tempfile.mkdtemp(prefix="penstock-postgres-"))
        self._user = None
        if os.getuid() == 0:
            self._user = "nobody"
            shutil.chown(folder, "nobody")
        self._data = str(folder / "data")
        self._run("initdb", "-D", self._data, "-U", "penstock", "-A", "trust", "--no-sync")
        # No port, so that two servers never conflict.
        self._settings = ["-h", "", "-k", str(folder), "-F"]
        for name, value in settings.items():
            self._settings += ["-c", f"{name}={value}"]
        self.start()
        self.url = f"postgresql:///postgres?host={folder}&user=penstock"

    def __getstate__(self):
        # Functions of a job that execute statements have a copy.
        return {name: value for name, value in vars(self).items() if name != "_process"}

    def start(self):
        # Not by pg_ctl, whose servers have no parent.
        server = [self._programs / "postgres", "-D", self._data, *self._settings]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*DIES_WITH_ITS_PARENT, *server],
                user=self._user,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        eventually(self._is_ready, "PostgreSQL accepts connections")

    def halt(self):
        self._end("fast")

    def execute(self, sql, url=None):
        import psycopg

        with psycopg.connect(url or self.url, autocommit=True) as connection:
            cursor = connection.execute(sql)
            return cursor.fetchall() if cursor.description else []

    def wants_passwords(self):
        """Require a password from every user but the owner, from now on."""
        lines = [
            f"local {what} {who} {how}\n"
            for who, how in (("penstock", "trust"), ("all", "scram-sha-256"))
            for what in ("all", "replication")
        ]
        Path(self._data, "pg_hba.conf").write_text("".join(lines))
        self.execute("SELECT pg_reload_conf()")

    def url_of(self, user, password, database="postgres"):
        """Return the URL for another user."""
        return f"postgresql://{user}:{password}@/{database}?host={self._folder}"

    def stop(self):
        if (self._folder / "data" / "postmaster.pid").exists():
            self._end("immediate")
        shutil.rmtree(self._folder)

    def _is_ready(self):
        assert self._process.poll() is None, (self._folder / "log").read_text()
        # The server's own word, by which pg_ctl knows, too.
        status = Path(self._data, "postmaster.pid")
        return status.exists() and "ready" in status.read_text()

    def _end(self, mode):
        self._run("pg_ctl", "-D", self._data, "-w", "-m", mode, "stop")
        self._process.wait()

    def _run(self, name, *arguments):
        done = subprocess.run(
            [self._programs / name, *arguments],
            user=self._user,
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
