"""How many tasks a Spark runs at the same time."""

import re
from collections.abc import Mapping

_LOCAL = re.compile(r"local(?:\[(\*|\d+)(?:\s*,\s*\d+)?\])?")
_LOCAL_CLUSTER = re.compile(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,\s*\d+\s*\]")


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
