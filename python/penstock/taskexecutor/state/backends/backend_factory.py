"""The choice of a keyed state backend."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.common.options import changelog
from penstock.common.options.checkpointing import INCREMENTAL
from penstock.common.options.state import BACKEND, check_rocksdb
from penstock.taskexecutor.state.backends.heap_keyed_state_backend import HeapKeyedStateBackend

if TYPE_CHECKING:
    from penstock.taskexecutor.state.backends.keyed_state_backend import (
        BackendSurroundings,
        KeyedStateBackend,
    )


def create_keyed_state_backend(surroundings: BackendSurroundings) -> KeyedStateBackend:
    """Create the keyed state backend that ``state.backend.type`` names, without states.

    Raises:
        ConfigurationError: The backend needs a package that is not installed here.
    """
    configuration = surroundings.configuration
    if BACKEND.read(configuration) == "rocksdb":
        check_rocksdb(configuration)
        from penstock.taskexecutor.rocksdb.backend import RocksDBKeyedStateBackend

        return RocksDBKeyedStateBackend(surroundings)
    return HeapKeyedStateBackend(
        surroundings.clock_ms,
        surroundings.evaluation,
        is_incremental=INCREMENTAL.read(configuration),
        logs_changes=changelog.ENABLED.read(configuration),
    )
