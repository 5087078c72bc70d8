"""Rescaling: restarts a running job with another parallelism, from a checkpoint taken for it."""

from __future__ import annotations

import logging
from concurrent.futures import Future
from typing import TYPE_CHECKING

from penstock.common.options import pipeline
from penstock.errors import CheckpointError, ConfigurationError, RescalingError
from penstock.jobmaster.scheduling.states import ExecutionState, JobStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.graph.job_graph import JobGraph, JobVertex
    from penstock.jobmaster.checkpointing.completed_store import CompletedCheckpoint
    from penstock.jobmaster.scheduling.execution_graph import ExecutionGraph

logger = logging.getLogger(__name__)

_FORWARD = "FORWARD"


def parallelisms_for(
    job: JobGraph, wish: int | Mapping[bytes, int], present: Mapping[bytes, int] | None = None
) -> dict[bytes, int]:
    """Return the new parallelisms of the vertices that change theirs.

    Vertices joined by forward edges, or by a co-location, have equal parallelism.

    Args:
        job: The job.
        wish: The parallelism of all vertices but those that the program has fixed and those joined
            with them; or the parallelism of each named vertex.
        present: The present target parallelisms; those of the vertices if not given.

    Raises:
        RescalingError: This parallelism is not possible; the text says where and why.
    """
    if present is None:
        present = {vertex.id: vertex.parallelism for vertex in job.vertices.values()}
    tied = tied_vertices(job)
    wanted: dict[bytes, int] = {}
    if isinstance(wish, int):
        for group in tied:
            if not any(vertex.has_own_parallelism for vertex in group):
                wanted |= {vertex.id: wish for vertex in group}
        if not wanted:
            raise RescalingError(
                f"the program has fixed the parallelism of every operator of job {job.name!r}"
            )
    else:
        unknown = sorted(id_.hex() for id_ in wish.keys() - job.vertices.keys())
        if unknown:
            raise RescalingError(f"job {job.name!r} has no vertex {unknown[0]}")
        wanted = dict(wish)
        for group in tied:
            _check_tied(group, {**present, **wanted})
    changed = {
        id_: parallelism for id_, parallelism in wanted.items() if parallelism != present[id_]
    }
    for id_, parallelism in changed.items():
        _check_bounds(job.vertices[id_], parallelism, present[id_])
    return changed


def override_parallelism(job: JobGraph) -> None:
    """Set the parallelism of vertices that the job's options name, whatever the program sets.

    Raises:
        ConfigurationError: There is no such vertex, or it cannot have this parallelism.
    """
    overrides = pipeline.PARALLELISM_OVERRIDES.read(job.configuration)
    option_key = pipeline.PARALLELISM_OVERRIDES.key
    by_id = {vertex.id.hex(): vertex for vertex in job.vertices.values()}
    for key, parallelism in overrides.items():
        vertex = by_id.get(key)
        if vertex is None:
            names = ", ".join(f"{id_} {one.name!r}" for id_, one in by_id.items())
            raise ConfigurationError(
                f"{option_key}: job {job.name!r} has no vertex {key!r}; it has {names}"
            )
        if parallelism > vertex.max_parallelism:
            raise ConfigurationError(
                f"{option_key}: {vertex.name!r} can have 1 to {vertex.max_parallelism} subtasks, "
                f"its max parallelism, not {parallelism}"
            )
        vertex.parallelism = parallelism
    for group in tied_vertices(job) if overrides else ():
        try:
            _check_tied(group, {vertex.id: vertex.parallelism for vertex in group})
        except RescalingError as error:
            raise ConfigurationError(f"{option_key}: {error}") from None


def rescale_as_before(job: JobGraph, parallelisms: Mapping[bytes, int]) -> None:
    """Set the parallelism that the user gave the job under a former driver.

    If the program has changed so that it does not fit, the job keeps the program's parallelism.
    """
    try:
        changed = parallelisms_for(job, parallelisms)
    except RescalingError as error:
        logger.warning("job %s has the parallelism of its program again: %s", job.name, error)
        return
    for vertex_id, parallelism in changed.items():
        job.vertices[vertex_id].parallelism = parallelism


def slots_by_group(job: JobGraph, changed: Mapping[bytes, int]) -> dict[str, int]:
    """Return the slots of each slot sharing group if some vertices change their parallelism."""
    slots: dict[str, int] = {}
    for vertex in job.vertices.values():
        parallelism = changed.get(vertex.id, vertex.parallelism)
        slots[vertex.slot_sharing_group] = max(slots.get(vertex.slot_sharing_group, 0), parallelism)
    return slots


def _check_tied(group: list[JobVertex], wanted: Mapping[bytes, int]) -> None:
    if len({wanted[vertex.id] for vertex in group}) > 1:
        names = ", ".join(f"{vertex.name!r}: {wanted[vertex.id]}" for vertex in group)
        raise RescalingError(
            "these vertices exchange records without a shuffle and must have equal parallelism: "
            f"{names}"
        )


def _check_bounds(vertex: JobVertex, parallelism: int, present: int) -> None:
    if vertex.has_own_parallelism:
        raise RescalingError(
            f"the program has fixed the parallelism of {vertex.name!r} at {present}"
        )
    if not 1 <= parallelism <= vertex.max_parallelism:
        raise RescalingError(
            f"{vertex.name!r} can have 1 to {vertex.max_parallelism} subtasks, its max "
            f"parallelism, not {parallelism}"
        )


def tied_vertices(job: JobGraph) -> list[list[JobVertex]]:
    """Return the groups of vertices that must have equal parallelism."""
    producers = {d.id: v.id for v in job.vertices.values() for d in v.produced}
    group_of = {id_: [vertex] for id_, vertex in job.vertices.items()}

    def join(one: bytes, other: bytes) -> None:
        first, second = group_of[one], group_of[other]
        if first is not second:
            first += second
            for vertex in second:
                group_of[vertex.id] = first

    co_located: dict[str, bytes] = {}
    for vertex in job.vertices.values():
        for edge in vertex.inputs:
            if edge.ship_strategy == _FORWARD:
                join(producers[edge.dataset_id], vertex.id)
        if vertex.co_location_group is not None:
            join(co_located.setdefault(vertex.co_location_group, vertex.id), vertex.id)
    return list({id(group): group for group in group_of.values()}.values())


class Rescaling:
    """The rescalings of one job, one at a time; every method runs in the main thread."""

    def __init__(
        self,
        graph: ExecutionGraph,
        take_checkpoint: Callable[[], Future[CompletedCheckpoint]],
        restart: Callable[[Mapping[bytes, int]], None],
        post: Callable[[Callable[[], None]], None],
        room: Callable[[], int | None],
        present: Callable[[], Mapping[bytes, int]],
    ) -> None:
        """Create the service.

        Args:
            graph: The job's subtasks.
            take_checkpoint: Takes the checkpoint that the job restarts from.
            restart: Restarts the job with other parallelisms, from its latest checkpoint.
            post: Runs a call in the main thread, after the present one.
            room: The slots that the job can have, its own included; None without a known limit.
            present: The present target parallelism of each vertex.
        """
        self._graph = graph
        self._take_checkpoint = take_checkpoint
        self._restart = restart
        self._post = post
        self._room = room
        self._present = present
        self._under_way: Future[None] | None = None
        self._has_restarted = False

    def begin(self, wish: int | Mapping[bytes, int]) -> Future[None]:
        """Start; the future is done when all tasks run with the new parallelism.

        Raises:
            RescalingError: This rescaling is not possible, or not now.
        """
        job = self._graph.job
        self._check_free()
        if any(result.is_blocking for result in self._graph.results.values()):
            raise RescalingError(
                f"job {job.name!r} has steps that wait for others: it keeps its parallelism"
            )
        if job.checkpoint_interval_ms is None:
            raise RescalingError(
                f"job {job.name!r} takes no checkpoints to continue from: set "
                "execution.checkpointing.interval, or stop it with a savepoint and start it from "
                "there (penstock run -p N -s PATH)"
            )
        changed = parallelisms_for(job, wish, self._present())
        if not changed:
            done: Future[None] = Future()
            done.set_result(None)
            return done
        self._check_room(changed)
        return self._with_checkpoint(changed)

    def use_slots(self) -> Future[None]:
        """Start to restart a job that takes checkpoints with the available slots.

        The future is that of `begin`; it fails where `begin` would raise.
        """
        try:
            self._check_free()
        except RescalingError as error:
            done: Future[None] = Future()
            done.set_exception(error)
            return done
        return self._with_checkpoint({})

    def _check_free(self) -> None:
        name = self._graph.job.name
        if self._under_way is not None:
            raise RescalingError(f"job {name!r} is being rescaled already")
        if self._graph.status is not JobStatus.RUNNING:
            raise RescalingError(
                f"job {name!r} is {self._graph.status.value}: only one that runs is rescaled"
            )

    def _with_checkpoint(self, changed: Mapping[bytes, int]) -> Future[None]:
        done: Future[None] = Future()
        self._under_way, self._has_restarted = done, False

        def taken(checkpoint: Future[CompletedCheckpoint]) -> None:
            # The coordinator handles a completed checkpoint first.
            self._post(lambda: self._go_on(done, checkpoint, changed))

        self._take_checkpoint().add_done_callback(taken)
        return done

    def _check_room(self, changed: Mapping[bytes, int]) -> None:
        job = self._graph.job
        room, needed = self._room(), sum(slots_by_group(job, changed).values())
        if room is not None and needed > max(room, job.slots_required):
            raise RescalingError(
                f"job {job.name!r} would need {needed} slots and can have {room}: its host has no "
                "place for more TaskExecutors; give it more (on Spark more executors or cores), "
                "or stop the job with a savepoint and start it from there, which divides the "
                "slots among the places there are (penstock run -p N -s PATH)"
            )

    def tasks_changed(self) -> None:
        """Complete the rescaling once all restarted tasks run or have finished."""
        states = (ExecutionState.RUNNING, ExecutionState.FINISHED)
        if self._has_restarted and self._graph.all_in(*states):
            self._end(None)

    def job_ended(self, status: str) -> None:
        """Fail the rescaling of a job that has ended."""
        self._end(RescalingError(f"job {self._graph.job.name!r} is {status}"))

    def _go_on(
        self,
        done: Future[None],
        checkpoint: Future[CompletedCheckpoint],
        changed: Mapping[bytes, int],
    ) -> None:
        if self._under_way is not done:
            return  # the job has ended
        error = checkpoint.exception()
        if error is not None:
            if isinstance(error, CheckpointError):
                error = RescalingError(f"the checkpoint to continue from failed: {error}")
            self._end(error)
        elif self._graph.status is not JobStatus.RUNNING:
            self._end(
                RescalingError(
                    f"job {self._graph.job.name!r} became {self._graph.status.value} meanwhile: "
                    "try again when it runs"
                )
            )
        else:
            self._has_restarted = True
            self._restart(changed)
            self.tasks_changed()  # unless the tasks can continue unchanged

    def _end(self, error: BaseException | None) -> None:
        done, self._under_way, self._has_restarted = self._under_way, None, False
        if done is None:
            return
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)
