"""A YARN of one node: a ResourceManager and a NodeManager, each a plain Java process."""

import contextlib
import json
import re
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import psutil
import pyspark
from support.leftovers import without_mark
from support.patience import PATIENCE_S
from support.processes import DIES_WITH_ITS_PARENT, living
from support.reserved_ports import reserved_ports
from support.sessions import Spoken, eventually

JARS = Path(__file__).parents[2] / "build" / "yarn" / "jars"
HOME = Path(pyspark.__file__).parent
SERVER = "org.apache.hadoop.yarn.server"
_LIGHT = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
_OPENED = [f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in ("lang", "io", "util")]
_LOG = """\
log4j.rootLogger=INFO, stdout
log4j.appender.stdout=org.apache.log4j.ConsoleAppender
log4j.appender.stdout.layout=org.apache.log4j.PatternLayout
log4j.appender.stdout.layout.ConversionPattern=%d{ISO8601} %p %c{2}: %m%n
"""


class YarnCluster:
    """A cluster on 127.0.0.1, at ports that the kernel chose; it must always be closed."""

    def __init__(self, folder: Path) -> None:
        """Start both processes, and wait until the node has registered."""
        java = shutil.which("java")
        assert java is not None, "Spark's tests need Java"
        self._folder = folder
        self.java_home = str(Path(java).resolve().parents[1])
        self._servers: list[subprocess.Popen[bytes]] = []
        (folder / "conf").mkdir()
        (folder / "conf" / "log4j.properties").write_text(_LOG)
        (folder / "conf" / "yarn-site.xml").write_text(_xml(self._site()))
        self.manager = self._start("resourcemanager.ResourceManager")
        self.node = self._start("nodemanager.NodeManager")
        eventually(self._has_a_node, "a node of YARN is running", 0.2)

    def submit(self, mode: str, path: str, *program: str) -> Spoken:
        """Start `spark-submit`.

        Args:
            mode: Where the driver runs: ``client`` or ``cluster``.
            path: Its module search path.
            program: A file that the node has, and its arguments.
        """
        chosen = {
            "spark.master": "yarn",
            "spark.submit.deployMode": mode,
            "spark.yarn.jars": f"local:{HOME}/jars/*",
            "spark.yarn.stagingDir": str(self._folder / "staging"),
            "spark.yarn.am.waitTime": f"{PATIENCE_S}s",
            "spark.ui.enabled": "false",
            "spark.executor.instances": "2",
            "spark.driver.extraJavaOptions": " ".join(_LIGHT),
            "spark.executor.extraJavaOptions": " ".join(_LIGHT),
            "spark.yarn.appMasterEnv.PYTHONPATH": path,
        }
        words = [word for option in chosen.items() for word in ("--conf", "=".join(option))]
        memory = ("--driver-memory", "512m", "--executor-memory", "512m")
        return Spoken(
            [
                *DIES_WITH_ITS_PARENT,
                str(HOME / "bin" / "spark-submit"),
                *memory,
                *words,
                *program,
            ],
            HADOOP_CONF_DIR=str(self._folder / "conf"),
            SPARK_HOME=str(HOME),
            SPARK_LOCAL_IP="127.0.0.1",
            SPARK_SUBMIT_OPTS=" ".join(_LIGHT),
            PYSPARK_PYTHON=sys.executable,
            PYTHONPATH=path,
        )

    def containers(self, word: str, name: str = "") -> list[psutil.Process]:
        """Return the processes in containers with an argument that holds a word, and a name."""
        found = []
        with contextlib.suppress(psutil.NoSuchProcess):
            for process in psutil.Process(self.node.pid).children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess):
                    if name in process.name() and any(word in one for one in process.cmdline()):
                        found.append(process)
        return found

    def application(self) -> dict[str, Any]:
        """Return the newest application, as the ResourceManager shows it."""
        applications = self._get("apps")["apps"]["app"]
        newest: dict[str, Any] = max(applications, key=lambda one: one["startedTime"])
        return newest

    def attempts(self) -> list[tuple[str, str]]:
        """Return each attempt of the newest application, and the last state that was logged."""
        number = self.application()["id"].removeprefix("application_")
        found = re.findall(
            rf"(appattempt_{number}_\d+) State change from \w+ to (\w+)", self.log(self.manager)
        )
        return sorted(dict(found).items())

    def log(self, server: "subprocess.Popen[bytes]") -> str:
        """Return the log of a server."""
        return self._log_path(server.args[-1]).read_text()  # type: ignore[index]

    def close(self) -> None:
        """End both processes and the containers."""
        containers = self.containers("")
        for server in reversed(self._servers):
            server.terminate()
            server.wait(PATIENCE_S)
        for process in living(containers):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(containers, timeout=PATIENCE_S)

    def _has_a_node(self) -> bool:
        assert all(server.poll() is None for server in self._servers), self.log(self._servers[-1])
        with contextlib.suppress(OSError):
            return bool(self._get("metrics")["clusterMetrics"]["activeNodes"])
        return False

    def _get(self, what: str) -> Any:
        with urllib.request.urlopen(f"{self._url}/{what}", timeout=PATIENCE_S) as answer:
            return json.load(answer)

    def _log_path(self, main: str) -> Path:
        return self._folder / f"{main.rpartition('.')[2]}.log"

    def _start(self, main: str) -> "subprocess.Popen[bytes]":
        path = f"{self._folder}/conf:{JARS}/*"
        command = [*DIES_WITH_ITS_PARENT, f"{self.java_home}/bin/java", "-Xmx256m", *_LIGHT]
        with self._log_path(main).open("w") as log:
            server = subprocess.Popen(
                [*command, *_OPENED, "-cp", path, f"{SERVER}.{main}"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                env={
                    **without_mark(),
                    "JAVA_HOME": self.java_home,
                    "SPARK_LOCAL_IP": "127.0.0.1",
                },
            )
        self._servers.append(server)
        return server

    def _site(self) -> dict[str, str]:
        names = ("", ".scheduler", ".resource-tracker", ".admin", ".webapp")
        ports = reserved_ports(len(names))
        self._url = f"http://127.0.0.1:{ports[-1]}/ws/v1/cluster"
        manager = "yarn.resourcemanager"
        node = "yarn.nodemanager"
        return {
            **{
                f"{manager}{n}.address": f"127.0.0.1:{p}" for n, p in zip(names, ports, strict=True)
            },
            **{f"{node}{n}.address": "127.0.0.1:0" for n in ("", ".localizer", ".webapp")},
            "hadoop.tmp.dir": str(self._folder / "tmp"),
            f"{manager}.scheduler.class": f"{SERVER}.{manager[5:]}.scheduler.fifo.FifoScheduler",
            f"{manager}.hostname": "127.0.0.1",
            f"{node}.hostname": "127.0.0.1",
            f"{node}.local-dirs": str(self._folder / "local"),
            f"{node}.log-dirs": str(self._folder / "logs"),
            f"{node}.env-whitelist": "JAVA_HOME,SPARK_LOCAL_IP",
            f"{node}.resource.memory-mb": "8192",
            f"{node}.vmem-check-enabled": "false",
            f"{node}.disk-health-checker.max-disk-utilization-per-disk-percentage": "100",
            f"{node}.delete.debug-delay-sec": "3600",  # pytest removes the folder
            "yarn.scheduler.minimum-allocation-mb": "128",
        }


def _xml(properties: dict[str, str]) -> str:
    lines = "".join(
        f"<property><name>{key}</name><value>{value}</value></property>\n"
        for key, value in properties.items()
    )
    return f"<configuration>\n{lines}</configuration>\n"
