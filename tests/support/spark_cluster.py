"""A standalone Spark cluster: a master, and workers on hosts of `support.hosts`."""

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import pyspark
from e2e.spark_jobs import LIGHT
from support.hosts import Network
from support.processes import DIES_WITH_ITS_PARENT
from support.sessions import Spoken

HOME = Path(pyspark.__file__).parent
#: Clients must know the secret; each driver chooses whether to encrypt.
AUTHENTICATES = {
    "spark.authenticate": "true",
    "spark.authenticate.secret": "one-of-the-tests",
}
ENCRYPTS = {**AUTHENTICATES, "spark.network.crypto.enabled": "true"}


class SparkCluster:
    """A master on the host ``master``, and a worker with one core on each of the other hosts."""

    def __init__(self, network: Network, folder: Path) -> None:
        self.url = f"spark://{network['master'].address}:7077"
        self._network = network
        self._folder = folder
        self._roles: dict[str, Spoken] = {}

    def start(self, workers: list[str]) -> None:
        """Start missing processes; return when all workers are registered."""
        if "master" not in self._roles:
            self._start("master", "master.Master", "--port", "7077").says("New state: ALIVE")
        missing = [name for name in workers if name not in self._roles]
        for role in [self._start_worker(name) for name in missing]:
            role.says("Successfully registered with master")

    def _start_worker(self, name: str) -> Spoken:
        work = str(self._folder / name)
        return self._start(
            *(name, "worker.Worker", "--cores", "1", "--memory", "1g", "--work-dir", work),
            self.url,
        )

    def submit(self, host: str, program: str, path: str, *arguments: str) -> None:
        """Let the cluster run a program's driver on one of its workers, again if it fails.

        `spark-submit` itself rejects Python there; Spark's own runner of such programs does not.

        Args:
            host: The host that submits the program.
            program: A file that all hosts have.
            path: Its module search path.
            arguments: The program's arguments.
        """
        (jar,) = (HOME / "jars").glob("spark-core_*.jar")
        settings = [word for option in ENCRYPTS.items() for word in ("--conf", "=".join(option))]
        submit = str(HOME / "bin" / "spark-submit")
        command = [
            *(*self._network[host].inside, submit, "--master", self.url),
            *("--deploy-mode", "cluster", "--supervise", "--driver-memory", "512m", *settings),
            *("--class", "org.apache.spark.deploy.PythonRunner", f"file:{jar}", program, path),
            *arguments,
        ]
        # The worker chooses the driver's host, so the command names no address.
        submitter = Spoken(command, SPARK_HOME=str(HOME), PYSPARK_PYTHON=sys.executable)
        assert submitter.end() == 0, submitter.log

    def lose(self, name: str) -> None:
        """Remove a host permanently, without any shutdown message."""
        self._network[name].cut()
        for pid in self._network[name].processes():
            # The process may just have ended, because it lost its peers.
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._roles.pop(name).end()

    def environment(self, host: str) -> dict[str, str]:
        """Return the environment of a driver on a host."""
        return {
            "SPARK_HOME": str(HOME),
            "SPARK_LOCAL_IP": self._network[host].address,
            "SPARK_LOCAL_DIRS": str(self._folder),
            "PYSPARK_PYTHON": sys.executable,
        }

    def close(self) -> None:
        """End all processes, the master last."""
        for role in reversed(self._roles.values()):
            role.signal(signal.SIGTERM)

    def _start(self, name: str, kind: str, *arguments: str) -> Spoken:
        host = self._network[name]
        command = [
            *(*DIES_WITH_ITS_PARENT, *host.inside, str(HOME / "bin" / "spark-class")),
            f"org.apache.spark.deploy.{kind}",
            *("--host", host.address, "--webui-port", "0", *arguments),
        ]
        options = " ".join([LIGHT, *(f"-D{key}={value}" for key, value in ENCRYPTS.items())])
        role = Spoken(
            command,
            **self.environment(name),
            SPARK_DAEMON_MEMORY="256m",
            SPARK_DAEMON_JAVA_OPTS=options,
        )
        self._roles[name] = role
        return role
