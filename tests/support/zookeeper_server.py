"""A ZooKeeper of one node, for tests: a real one, in its own process."""

import os
import signal
import socket
import subprocess
import time
from pathlib import Path

from support.leftovers import without_mark
from support.patience import PATIENCE_S
from support.processes import DIES_WITH_ITS_PARENT
from support.reserved_ports import reserved_ports

JARS = Path(__file__).parents[2] / "build" / "kafka" / "jars"

_CONFIGURATION = """\
tickTime=100
minSessionTimeout=200
maxSessionTimeout=3600000
clientPortAddress=127.0.0.1
clientPort={port}
dataDir={folder}
admin.enableServer=false
4lw.commands.whitelist=ruok
"""


class ZooKeeperServer:
    """A server at a port that the kernel chose; it must always be stopped."""

    def __init__(self, folder):
        self.folder = folder
        (self.port,) = reserved_ports()
        self.process = None

    @property
    def address(self):
        return ("127.0.0.1", self.port)

    @property
    def quorum(self):
        return f"127.0.0.1:{self.port}"

    def start(self):
        """Start the server, and wait until it answers."""
        path = self.folder / "zoo.cfg"
        path.write_text(_CONFIGURATION.format(port=self.port, folder=self.folder / "data"))
        home = os.environ.get("JAVA_HOME")
        java = f"{home}/bin/java" if home else "java"
        main = "org.apache.zookeeper.server.ZooKeeperServerMain"
        options = ["-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        with (self.folder / "log").open("a") as log:
            self.process = subprocess.Popen(
                [*DIES_WITH_ITS_PARENT, java, *options, "-cp", f"{JARS}/*", main, str(path)],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env=without_mark(),
            )
        deadline_s = time.monotonic() + PATIENCE_S
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > deadline_s:
                raise AssertionError((self.folder / "log").read_text()[-3000:])
            time.sleep(0.05)
        return self

    def signal(self, number):
        os.kill(self.process.pid, number)

    def stop(self):
        if self.process is not None:
            self.signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait()
            self.process = None

    def _answers(self):
        try:
            with socket.create_connection(self.address, 1) as one:
                one.sendall(b"ruok")
                return one.recv(4) == b"imok"
        except OSError:
            return False
