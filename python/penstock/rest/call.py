"""One request as its handler sees it: its parameters, looked up in a snapshot of the cluster."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.jobmaster.cluster_gateway import ClusterGateway
    from penstock.jobmaster.snapshots import (
        ClusterSnapshot,
        JobSnapshot,
        SubtaskSnapshot,
        VertexSnapshot,
        WorkerSnapshot,
    )
    from penstock.metrics.values import MetricValues
    from penstock.rest.flame_graphs import FlameGraphs
    from penstock.rest.operations import Operations

Json = dict[str, Any] | list[Any]


@dataclass(frozen=True)
class Text:
    """An answer that is not JSON.

    Attributes:
        text: The whole text.
        headers: Further headers.
    """

    text: str
    headers: Mapping[str, str] = field(default_factory=dict)


_ID: Final = re.compile(r"[0-9a-f]{32}")
_NUMBER: Final = re.compile(r"[0-9]{1,18}")


class RestError(Exception):
    """A request cannot be answered; the client gets the reason.

    Attributes:
        status: The HTTP status.
    """

    def __init__(self, status: int, message: str) -> None:
        """Create an error with the text for the client."""
        super().__init__(message)
        self.status = status


def not_found(what: str) -> RestError:
    """Return the error for a missing object."""
    return RestError(404, f"{what} not found")


@dataclass(frozen=True)
class Call:
    """One request.

    Attributes:
        gateway: The cluster.
        cluster: A snapshot of it.
        driver: Metrics of the driver.
        operations: Triggered operations whose outcome is asked for later.
        flame_graphs: Recent stack samples of tasks.
        path: The variable parts of the path.
        query: The parameters of the query.
        body: The JSON of the body; an empty object if there is none.
    """

    gateway: ClusterGateway
    cluster: ClusterSnapshot
    driver: MetricValues
    operations: Operations
    flame_graphs: FlameGraphs
    path: Mapping[str, str]
    query: Mapping[str, Sequence[str]]
    body: Mapping[str, Any]

    @property
    def now_ms(self) -> int:
        """The time at which the snapshot was taken, in ms since 1970."""
        return self.cluster.taken_ms

    def id(self, name: str) -> bytes:
        """Return a 16-byte id in the path.

        Raises:
            RestError: It is not an id.
        """
        text = self.path[name]
        if _ID.fullmatch(text) is None:
            raise _bad_parameter("path", name, text)
        return bytes.fromhex(text)

    def number(self, name: str) -> int:
        """Return a number in the path.

        Raises:
            RestError: It is not a number.
        """
        text = self.path[name]
        if _NUMBER.fullmatch(text) is None:
            raise _bad_parameter("path", name, text)
        return int(text)

    def job(self) -> JobSnapshot:
        """Return the job in the path.

        Raises:
            RestError: There is no such job.
        """
        job = self.cluster.job(self.id("jobid"))
        if job is None:
            raise not_found(f"Job {self.path['jobid']}")
        return job

    def vertex(self) -> VertexSnapshot:
        """Return the vertex in the path.

        Raises:
            RestError: There is no such vertex.
        """
        vertex = self.job().vertex(self.id("vertexid"))
        if vertex is None:
            raise not_found(f"JobVertex {self.path['vertexid']}")
        return vertex

    def subtask(self) -> SubtaskSnapshot:
        """Return the subtask in the path.

        Raises:
            RestError: There is no such subtask.
        """
        vertex, index = self.vertex(), self.number("subtaskindex")
        if index >= vertex.parallelism:
            raise RestError(404, f"Invalid subtask index for vertex {vertex.id.hex()}")
        return vertex.subtasks[index]

    def worker(self) -> WorkerSnapshot:
        """Return the TaskExecutor in the path.

        Raises:
            RestError: There is no such TaskExecutor.
        """
        name = self.path["taskmanagerid"]
        for worker in self.cluster.workers:
            if worker.executor_id == name:
                return worker
        raise not_found(f"TaskExecutor {name}")

    def names(self, parameter: str) -> list[str] | None:
        """Return a comma-separated list in the query; None if it is absent."""
        values = self.query.get(parameter)
        if values is None:
            return None
        return [name for value in values for name in value.split(",") if name]

    def choice(self, parameter: str, default: str, *others: str) -> str:
        """Return a parameter of the query.

        Raises:
            RestError: Its value is not one of the choices.
        """
        values = self.query.get(parameter, [default])
        if len(values) != 1 or values[0] not in (default, *others):
            raise _bad_parameter("query", parameter, ",".join(values))
        return values[0]

    def field(self, name: str, kind: type, *aliases: str) -> Any:
        """Return a field of the body; None if it is absent.

        Raises:
            RestError: It has another type.
        """
        for key in (name, *aliases):
            value = self.body.get(key)
            if value is not None:
                if not isinstance(value, kind):
                    expected = f"expected {kind.__name__}, got {value!r}"
                    raise RestError(400, f"Invalid field {key!r} of the body: {expected}")
                return value
        return None


def _bad_parameter(where: str, name: str, text: str) -> RestError:
    return RestError(
        400,
        "Bad request, could not parse parameters: "
        f'Cannot resolve {where} parameter ({name}) from value "{text[:100]}".',
    )
