"""Context of the creation of sink writers and committers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.common.configuration import Configuration
from penstock.connectors.committer import CommitterInitContext
from penstock.connectors.writer_sink import WriterInitContext

if TYPE_CHECKING:
    from penstock.metrics.metricbase import MetricGroup
    from penstock.taskexecutor.compiled.operator_context import OperatorContext


class SinkInitContext(WriterInitContext, CommitterInitContext):
    """The surroundings of a writer or a committer."""

    def __init__(self, context: OperatorContext, restored_checkpoint_id: int | None) -> None:
        """Create a view of ``context``; the id is None for a subtask without restored state."""
        self._context = context
        self._restored_checkpoint_id = restored_checkpoint_id

    def get_index_of_subtask(self) -> int:
        """Return the subtask, from 0."""
        return self._context.environment.subtask

    def get_number_of_parallel_subtasks(self) -> int:
        """Return the number of subtasks."""
        return self._context.environment.parallelism

    def get_attempt_number(self) -> int:
        """Return the number of earlier starts of the subtask, from 0."""
        return self._context.environment.attempt_number

    def current_processing_time(self) -> int:
        """Return the time of the machine's clock, in ms."""
        return self._context.processing_time.now()

    def metric_group(self) -> MetricGroup:
        """Return the group in which metrics are registered."""
        group: MetricGroup = self._context.runtime_context.get_metrics_group()
        return group

    def get_configuration(self) -> Configuration:
        """Return the job's configuration."""
        return Configuration.from_dict(dict(self._context.environment.configuration))

    def get_restored_checkpoint_id(self) -> int | None:
        """Return the restored checkpoint of the subtask, or None."""
        return self._restored_checkpoint_id
