"""Common context of sink writers and committers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.common.configuration import Configuration

__all__ = ["InitContext"]


class InitContext(ABC):
    """Context in which a writer or committer is created."""

    @abstractmethod
    def get_index_of_subtask(self) -> int:
        """Return the index of the subtask, from 0."""

    @abstractmethod
    def get_number_of_parallel_subtasks(self) -> int:
        """Return the number of parallel subtasks."""

    @abstractmethod
    def get_attempt_number(self) -> int:
        """Return the number of earlier starts of the subtask, from 0."""

    @abstractmethod
    def metric_group(self) -> Any:
        """Return the group in which the writer or committer registers its metrics."""

    @abstractmethod
    def get_configuration(self) -> Configuration:
        """Return the job's configuration."""

    @abstractmethod
    def get_restored_checkpoint_id(self) -> int | None:
        """Return the id of the restored checkpoint, or None."""
