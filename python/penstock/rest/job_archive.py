"""JobArchive: the interface's answers about a job that has ended, as one JSON file.

The file has Flink's format, ``{"archive": [{"path": …, "json": …}, …]}``, and the job's id as its
name, so that a history server, also Flink's, can show it when the cluster is gone.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import re
from typing import TYPE_CHECKING, Any, Final

from penstock.rest.call import Call, RestError
from penstock.rest.flame_graphs import FlameGraphs
from penstock.rest.live import picture
from penstock.rest.operations import Operations
from penstock.rest.routes import ENDPOINTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from penstock.checkpoint_storage.file_systems import FileSystem
    from penstock.jobmaster.cluster_gateway import ClusterGateway
    from penstock.jobmaster.snapshots import ClusterSnapshot, JobSnapshot
    from penstock.metrics.values import MetricValues

OVERVIEW: Final = "/jobs/overview"
PICTURE: Final = "/events"
"""The last snapshot for the dashboard."""

_PARAMETER: Final = re.compile(r"\{(\w+)\}")


def archive_job(
    gateway: ClusterGateway,
    cluster: ClusterSnapshot,
    job: JobSnapshot,
    driver: MetricValues,
    files: FileSystem,
    folder: str,
) -> str:
    """Write the archive of a job atomically.

    Args:
        gateway: The cluster.
        cluster: Its snapshot.
        job: The job in it.
        driver: Metrics of the driver.
        files: The file system of the folder.
        folder: The folder of the archives.

    Returns:
        The path of the file.

    Raises:
        OSError: It cannot be written.
    """
    alone = type(cluster)(cluster.taken_ms, cluster.workers, (job,))

    def call(path: Mapping[str, str]) -> Call:
        graphs = FlameGraphs(gateway.configuration)
        return Call(gateway, alone, driver, Operations(), graphs, path, {}, {})

    entries = asyncio.run(_entries(job, call))
    found = {"archive": [{"path": path, "json": _text(answer)} for path, answer in entries]}
    path = f"{folder.rstrip('/')}/{job.id.hex()}"
    files.make_directory(folder)
    files.publish(path, json.dumps(found).encode())
    return path


async def _entries(job: JobSnapshot, call: Any) -> list[tuple[str, Any]]:
    jobid = job.id.hex()
    about_all = call({"jobid": jobid})
    entries: list[tuple[str, Any]] = [
        (OVERVIEW, _handler(OVERVIEW)(about_all)),
        (PICTURE, picture(about_all)),
    ]
    for endpoint in ENDPOINTS:
        if not endpoint.is_archived:
            continue
        for parts in _choices(job, frozenset(_PARAMETER.findall(endpoint.path))):
            try:
                answer = endpoint.handler(call(parts))
                if inspect.isawaitable(answer):
                    answer = await answer
            except RestError:
                continue  # such as a vertex that took no part in a checkpoint
            entries.append((endpoint.path.format(**parts), answer))
    return entries


def _handler(path: str) -> Any:
    return next(one.handler for one in ENDPOINTS if (one.method, one.path) == ("GET", path))


def _choices(job: JobSnapshot, names: frozenset[str]) -> Iterator[dict[str, str]]:
    """Return the values that the variable parts of a path can take for one job."""
    whole = {"jobid": job.id.hex()}
    checkpoints = [record.checkpoint_id for record in job.checkpoints.history]
    numbers = [{"checkpointid": str(one)} for one in checkpoints]
    vertices: list[dict[str, str]] = []
    for vertex in job.vertices:
        of_vertex = {"vertexid": vertex.id.hex()}
        if "subtaskindex" not in names:
            vertices.append(of_vertex)
            continue
        for subtask in vertex.subtasks:
            of_subtask = {**of_vertex, "subtaskindex": str(subtask.index)}
            attempts = (subtask.current, *subtask.prior) if "attempt" in names else (None,)
            vertices += [
                of_subtask if one is None else {**of_subtask, "attempt": str(one.attempt)}
                for one in attempts
            ]
    for of_checkpoint in numbers if "checkpointid" in names else [{}]:
        for of_vertex in vertices if "vertexid" in names else [{}]:
            yield {**whole, **of_checkpoint, **of_vertex}


def _text(answer: Any) -> str:
    return json.dumps(answer, separators=(",", ":"), allow_nan=False, default=str)
