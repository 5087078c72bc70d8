"""The number of tasks that a Spark runs at the same time, from its master's name."""

import re
import socket
from collections.abc import Mapping

from penstock.errors import ConfigurationError

_LOCAL = re.compile(r"local(?:\[(\*|\d+)(?:\s*,\s*\d+)?\])?")
_LOCAL_CLUSTER = re.compile(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,\s*\d+\s*\]")
_ELSEWHERE = re.compile(r"yarn|k8s://.+|spark://[^,/\s]+:\d+(?:,[^,/\s]+:\d+)*")
_HOST = re.compile(r"([^,/\s]+):\d+")
#: The masters of cluster manager plugins, which only Spark can check; sc:// is not a master but a
#: Spark Connect server.
_PLUGIN = re.compile(r"(?!(?:spark|k8s|sc):)[a-zA-Z][a-zA-Z0-9+.-]*://.+")


def check_master(master: str) -> None:
    """Check the name of a master before a JVM starts in vain.

    Raises:
        ConfigurationError: Spark does not know such a master, or its host name does not
            resolve, which Spark would retry for a minute.
    """
    forms = _LOCAL, _LOCAL_CLUSTER, _ELSEWHERE, _PLUGIN
    if not any(form.fullmatch(master) for form in forms):
        raise ConfigurationError(
            f"spark.master: {master!r} is not a master of Spark: name local, local[N], local[*], "
            "local-cluster[EXECUTORS,CORES,MEGABYTES], spark://HOST:PORT, yarn, k8s://URL or the "
            "URL of a cluster manager that is a plugin of Spark"
        )
    hosts = _HOST.findall(master) if master.startswith("spark://") else []
    if hosts and not any(map(_is_known, hosts)):
        raise ConfigurationError(
            f"spark.master: {master!r}: this machine knows no address of {' or '.join(hosts)}: "
            "correct the name, or check its DNS"
        )


def _is_known(host: str) -> bool:
    try:
        socket.getaddrinfo(host.strip("[]"), None)
    except OSError:
        return False
    return True


def task_places(configuration: Mapping[str, str], processors: int) -> int | None:
    """Return the number of places for tasks of a Spark, including used ones.

    Args:
        configuration: Spark's configuration.
        processors: The value of ``local[*]``.

    Returns:
        At least 1; None if executors are allocated dynamically or not configured.
    """
    master = configuration.get("spark.master", "")
    if local := _LOCAL.fullmatch(master):
        cores = local[1] or "1"
        executors, cores_each = 1, processors if cores == "*" else int(cores)
    elif cluster := _LOCAL_CLUSTER.fullmatch(master):
        executors, cores_each = int(cluster[1]), int(cluster[2])
    else:
        if configuration.get("spark.dynamicAllocation.enabled") == "true":
            return None
        try:
            executors = int(configuration["spark.executor.instances"])
            cores_each = int(configuration["spark.executor.cores"])
        except KeyError:
            return None
    return max(1, executors * (cores_each // int(configuration.get("spark.task.cpus", "1"))))
