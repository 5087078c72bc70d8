"""Spark's own standalone cluster: a master, and workers on hosts of `support.hosts`."""

import os
import signal
import sys
from pathlib import Path

import pyspark
from support.hosts import Network
from support.sessions import Spoken

HOME = Path(pyspark.__file__).parent


class SparkCluster:
    """A master on the host ``master``, and a worker with one core on each of others."""

    def __init__(self, network: Network, workers: list[str], folder: Path) -> None:
        """Starts the processes; returns when all workers are registered."""
        self._network = network
        self._folder = folder
        self._roles: dict[str, Spoken] = {}
        self.master = self._start("master", "master.Master", "--port", "7077")
        self.master.says("New state: ALIVE")
        self.url = f"spark://{network['master'].address}:7077"
        for name in workers:
            self.start_worker(name)

    def start_worker(self, name: str) -> None:
        """Starts the worker of a host."""
        work = str(self._folder / name)
        role = self._start(
            *(name, "worker.Worker", "--cores", "1", "--memory", "1g", "--work-dir", work),
            self.url,
        )
        role.says("Successfully registered with master")

    def lose(self, name: str) -> None:
        """A host is gone for good: nobody on it can say goodbye."""
        self._network[name].cut()
        for pid in self._network[name].processes():
            os.kill(pid, signal.SIGKILL)
        self._roles.pop(name).end()

    def environment(self, host: str) -> dict[str, str]:
        """What a driver on a host has in its environment."""
        return {
            "SPARK_HOME": str(HOME),
            "SPARK_LOCAL_IP": self._network[host].address,
            "SPARK_LOCAL_DIRS": str(self._folder),
            "PYSPARK_PYTHON": sys.executable,
        }

    def close(self) -> None:
        for role in reversed(self._roles.values()):
            role.signal(signal.SIGTERM)

    def _start(self, name: str, kind: str, *arguments: str) -> Spoken:
        host = self._network[name]
        command = [
            *(*host.inside, str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}"),
            *("--host", host.address, "--webui-port", "0", *arguments),
        ]
        # The tests' own settings of Spark are not those of a cluster.
        role = Spoken(command, **self.environment(name), SPARK_DAEMON_MEMORY="256m")
        self._roles[name] = role
        return role
