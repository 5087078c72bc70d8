"""What the name of a Spark's master says, and how many tasks it runs at the same time."""

import re
from collections.abc import Mapping

from penstock.errors import ConfigurationError

_LOCAL = re.compile(r"local(?:\[(\*|\d+)(?:\s*,\s*\d+)?\])?")
_LOCAL_CLUSTER = re.compile(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,\s*\d+\s*\]")
_ELSEWHERE = re.compile(r"yarn|k8s://.+|spark://[^,/\s]+:\d+(?:,[^,/\s]+:\d+)*")
#: Of a cluster manager that is a plugin of Spark, which knows whether it has it; sc:// is no
#: master but a Spark Connect server.
_PLUGIN = re.compile(r"(?!(?:spark|k8s|sc):)[a-zA-Z][a-zA-Z0-9+.-]*://.+")


def check_master(master: str) -> None:
    """Looks whether it is the name of a master, before a JVM starts in vain.

    Raises:
        ConfigurationError: it is none that Spark knows.
    """
    forms = _LOCAL, _LOCAL_CLUSTER, _ELSEWHERE, _PLUGIN
    if not any(form.fullmatch(master) for form in forms):
        raise ConfigurationError(
            f"spark.master: {master!r} is no master of Spark: name local, local[N], local[*], "
            "local-cluster[EXECUTORS,CORES,MEGABYTES], spark://HOST:PORT, yarn, k8s://URL or the "
            "URL of a cluster manager that is a plugin of Spark"
        )


def task_places(configuration: Mapping[str, str], processors: int) -> int | None:
    """The places for tasks that a Spark of this configuration has, used ones included.

    Args:
        configuration: Spark's.
        processors: what ``local[*]`` stands for.

    Returns:
        At least 1; None where the executors come and go or are not configured.
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
