"""The choice of a keyed state backend."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.common.options import changelog
from penstock.common.options.checkpointing import INCREMENTAL
from penstock.common.options.state import BACKEND, check_rocksdb
from penstock.taskexecutor.state.backends.changelog_keyed_state_backend import (
    ChangelogKeyedStateBackend,
)
from penstock.taskexecutor.state.backends.heap_keyed_state_backend import HeapKeyedStateBackend

if TYPE_CHECKING:
    from penstock.taskexecutor.state.backends.keyed_state_backend import (
        BackendSurroundings,
        KeyedStateBackend,
    )
    from penstock.taskexecutor.state.backends.table_keyed_state_backend import (
        TableKeyedStateBackend,
    )


def create_keyed_state_backend(surroundings: BackendSurroundings) -> KeyedStateBackend:
    """Create the keyed state backend that ``state.backend.type`` names, without states.

    Raises:
        ConfigurationError: The backend needs a package that is not installed here.
    """
    configuration = surroundings.configuration
    logs_changes = changelog.ENABLED.read(configuration)
    backend: TableKeyedStateBackend
    if BACKEND.read(configuration) == "rocksdb":
        check_rocksdb(configuration)
        from penstock.taskexecutor.rocksdb.backend import RocksDBKeyedStateBackend

        backend = RocksDBKeyedStateBackend(surroundings)
    else:
        # A log leaves out more than increments do.
        is_incremental = INCREMENTAL.read(configuration) and not logs_changes
        backend = HeapKeyedStateBackend(
            surroundings.clock_ms, surroundings.evaluation, is_incremental=is_incremental
        )
    return ChangelogKeyedStateBackend(backend) if logs_changes else backend
