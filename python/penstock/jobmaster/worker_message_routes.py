"""WorkerMessageRoutes: the table of the messages of TaskExecutors, with owners and handlers."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, get_args

from penstock.jobmaster.checkpointing.service import CheckpointService
from penstock.jobmaster.job_master import JobMaster
from penstock.jobmaster.sources.source_coordinators import SourceCoordinators
from penstock.jobmaster.workers.inspections import Inspections
from penstock.jobmaster.workers.message_router import Route, Thread
from penstock.jobmaster.workers.printed_text import PrintedTextWriter
from penstock.jobmaster.workers.resource_manager import ResourceManager
from penstock.jobmaster.workers.worker_logs import WorkerLogs
from penstock.metrics.store import MetricStore
from penstock.rpc import messages as m
from penstock.rpc.checkpoint_messages import CheckpointStandings
from penstock.rpc.inspection_messages import Inspected

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.jobmaster.workers.message_router import WorkerConnection
    from penstock.jobmaster.workers.resource_manager import TaskExecutorGateway

logger = logging.getLogger(__name__)


class WorkerMessageRoutes:
    """Routes the messages of TaskExecutors to the parts of the driver that own them."""

    def __init__(
        self,
        logs: WorkerLogs,
        printed: PrintedTextWriter,
        metrics: MetricStore,
        inspections: Inspections,
        resources: ResourceManager,
        declare_lost: Callable[[TaskExecutorGateway, str], object],
        with_job: Callable[[bytes, Callable[[JobMaster], object]], bool],
    ) -> None:
        """Store the owners.

        Args:
            logs: The workers' logs.
            printed: The output of user code.
            metrics: The metrics of workers and tasks.
            inspections: Requests to workers.
            resources: The registered workers and their slots.
            declare_lost: Ends a worker, with a reason.
            with_job: Runs an action on the JobMaster of a job; returns whether the job runs.
        """
        self._logs = logs
        self._printed = printed
        self._metrics = metrics
        self._inspections = inspections
        self._resources = resources
        self._declare_lost = declare_lost
        self._with_job = with_job

    def table(self) -> list[Route[Any]]:
        """Return the table: one route for each type of `messages.ToDriver`."""
        here, main = Thread.CONNECTION, Thread.MAIN
        of_job = self._of_job
        return [
            Route(m.LogRecords, WorkerLogs, here, lambda _, x: self._logs.received(x)),
            Route(
                m.PrintedText,
                PrintedTextWriter,
                here,
                lambda worker, x: self._printed.received(x, worker.connection),
            ),
            Route(
                m.TaskMetrics,
                MetricStore,
                here,
                lambda worker, x: self._metrics.task_reported(worker.executor_id, x),
            ),
            Route(m.WorkerMetrics, MetricStore, here, self._worker_metrics_reported),
            Route(
                Inspected,
                Inspections,
                here,
                lambda worker, x: self._inspections.answered(worker.executor_id, x),
            ),
            Route(
                m.RegisterTaskExecutor,
                ResourceManager,
                main,
                self._register,
                needs_registration=False,
            ),
            Route(m.SlotFreed, ResourceManager, main, self._slot_freed),
            Route(m.SlotRefused, ResourceManager, main, self._slot_refused),
            # Its tasks fail as well: they must not be redeployed to slots that are ending.
            Route(
                m.FatalError,
                ResourceManager,
                main,
                lambda worker, x: self._declare_lost(worker.gateway, x.reason),
            ),
            Route(m.OfferSlots, JobMaster, main, self._slots_offered),
            Route(m.UpdateTaskState, JobMaster, main, of_job(JobMaster.task_state_reported)),
            Route(m.ReportAccumulators, JobMaster, main, of_job(JobMaster.accumulators_reported)),
            Route(
                m.AcknowledgeCheckpoint,
                CheckpointService,
                main,
                of_job(lambda job, _, x: job.checkpoints.acknowledged(x)),
            ),
            Route(
                m.AcknowledgeCheckpoints,
                CheckpointService,
                main,
                of_job(lambda job, _, x: job.checkpoints.acknowledged_together(x)),
            ),
            Route(
                m.DeclineCheckpoint,
                CheckpointService,
                main,
                of_job(lambda job, _, x: job.checkpoints.declined(x)),
            ),
            Route(
                m.AwaitFinalCheckpoint,
                CheckpointService,
                main,
                of_job(lambda job, _, x: job.checkpoints.final_checkpoint_wanted(x.attempt_id)),
            ),
            Route(
                CheckpointStandings,
                CheckpointService,
                main,
                of_job(lambda job, _, x: job.checkpoints.standings_reported(x)),
            ),
            Route(
                m.ReportedWatermark,
                SourceCoordinators,
                main,
                of_job(JobMaster.watermark_reported),
            ),
            *(
                Route(kind, SourceCoordinators, main, of_job(JobMaster.reader_reported))
                for kind in get_args(m.ToEnumerator)
            ),
        ]

    def _of_job(
        self, handle: Callable[[JobMaster, TaskExecutorGateway, Any], Any]
    ) -> Callable[[WorkerConnection, object], None]:
        """Return a handler that passes a message to its job's JobMaster, if the job runs."""

        def pass_on(worker: WorkerConnection, message: Any) -> None:
            self._with_job(message.job_id, lambda job: handle(job, worker.gateway, message))

        return pass_on

    def _worker_metrics_reported(self, worker: WorkerConnection, message: m.WorkerMetrics) -> None:
        if worker.executor_id:  # else it has not registered yet
            self._metrics.worker_reported(worker.executor_id, message.values)

    def _register(self, worker: WorkerConnection, message: m.RegisterTaskExecutor) -> None:
        if worker.executor is None:
            known = self._resources.executors.get(message.executor_id)
            if known is not None and known.epoch < message.epoch:
                self._declare_lost(known, "a newer incarnation registered")
            worker.executor = self._resources.register(message, worker.connection)

    def _slot_freed(self, worker: WorkerConnection, message: m.SlotFreed | m.SlotRefused) -> None:
        self._resources.slot_freed(worker.executor_id, message.allocation_id)

    def _slot_refused(self, worker: WorkerConnection, message: m.SlotRefused) -> None:
        logger.warning("%s refused a slot: %s", worker.gateway, message.reason)
        self._slot_freed(worker, message)

    def _slots_offered(self, worker: WorkerConnection, message: m.OfferSlots) -> None:
        runs = self._with_job(
            message.job_id, lambda job: job.slots_offered(worker.gateway, message)
        )
        if not runs:
            for offer in message.offers:
                worker.connection.send(m.FreeSlot(offer.allocation_id, "the job has ended"))
