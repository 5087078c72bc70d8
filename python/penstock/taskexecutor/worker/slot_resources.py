"""Resources of a slot that survive a restart: managed memory and local checkpoint copies."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from penstock.common.options import checkpointing, cluster, state_recovery
from penstock.taskexecutor.worker.memory_manager import SlotMemory

if TYPE_CHECKING:
    from penstock.rpc.task_deployment import TaskDeploymentDescriptor
    from penstock.taskexecutor.checkpointing.local_state import (
        LocalStateStores,
        TaskLocalStateStore,
    )
    from penstock.taskexecutor.worker.launch import LaunchSpec

logger = logging.getLogger(__name__)


class SlotResources:
    """Resources of one worker's slots; any thread."""

    def __init__(self, launch: LaunchSpec) -> None:
        """Create resources of no slot yet."""
        self._launch = launch
        self._lock = threading.Lock()
        self._local_state: LocalStateStores | None = None
        self._memory: dict[bytes, SlotMemory] = {}
        self.managed_bytes = cluster.MANAGED_MEMORY.read(launch.config)

    def local_state(self, descriptor: TaskDeploymentDescriptor) -> TaskLocalStateStore | None:
        """Return the store of a task's local copies; None if local copies are disabled.

        Args:
            descriptor: The task, with the configuration of its job and of the cluster.
        """
        config = descriptor.configuration
        wanted = checkpointing.LOCAL_BACKUP.read(config)
        if wanted is None:
            wanted = state_recovery.FROM_LOCAL.read(config)
        if not wanted:
            return None
        from penstock.taskexecutor.checkpointing.local_state import LocalStateStores

        with self._lock:
            if self._local_state is None:
                folders = checkpointing.LOCAL_BACKUP_FOLDERS.read(config) or self._launch.temp_dirs
                self._local_state = LocalStateStores(folders)
            try:
                return self._local_state.of(
                    descriptor.job_id,
                    descriptor.allocation_id,
                    descriptor.vertex_id,
                    descriptor.subtask,
                )
            except OSError as error:
                # Copies save time after a failure; failing to make them must not cause one.
                logger.warning(
                    "cannot keep local copies of the state of subtask %d: %s; "
                    "%s names folders that this worker may create and write",
                    descriptor.subtask,
                    error,
                    checkpointing.LOCAL_BACKUP_FOLDERS.key,
                )
                return None

    def memory(self, allocation_id: bytes) -> SlotMemory:
        """Return the managed memory of a slot: an equal share of the worker's."""
        with self._lock:
            found = self._memory.get(allocation_id)
            if found is None:
                found = SlotMemory.of(self.managed_bytes // self._launch.slots)
                self._memory[allocation_id] = found
            return found

    @property
    def used_managed_bytes(self) -> int:
        """Managed memory that tasks have reserved."""
        with self._lock:
            return sum(memory.used_bytes for memory in self._memory.values())

    def release(self, allocation_id: bytes) -> None:
        """Release the resources of a slot that the job no longer owns."""
        with self._lock:
            self._memory.pop(allocation_id, None)
        if self._local_state is not None:
            self._local_state.release(allocation_id)

    def close(self) -> None:
        """Delete the files on disk."""
        if self._local_state is not None:
            self._local_state.close()
