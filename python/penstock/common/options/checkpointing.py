"""Options of checkpoints and savepoints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.common.options import state_recovery
from penstock.common.options.option import Option, Scope
from penstock.common.options.value_types import (
    BooleanType,
    ChoiceType,
    DurationType,
    FoldersType,
    FolderType,
    IntegerType,
    MemorySizeType,
    ValueType,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


def _checkpointing(
    name: str,
    value_type: ValueType[Any],
    default: Any,
    meaning: str,
    *alternate_keys: str,
    scope: Scope = "job",
) -> Option[Any]:
    return Option(
        f"execution.checkpointing.{name}",
        value_type,
        default,
        meaning,
        alternate_keys=alternate_keys,
        scope=scope,
    )


INTERVAL: Final[Option[int | None]] = _checkpointing(
    "interval", DurationType(10), None, "interval of checkpoints; without it none are taken"
)
MODE: Final[Option[str]] = _checkpointing(
    "mode",
    ChoiceType("EXACTLY_ONCE", "AT_LEAST_ONCE"),
    "EXACTLY_ONCE",
    "guarantee of checkpoints",
)
TIMEOUT: Final[Option[int]] = _checkpointing(
    "timeout", DurationType(10), 600_000, "time after which a checkpoint is aborted"
)
MIN_PAUSE: Final[Option[int]] = _checkpointing(
    "min-pause",
    DurationType(),
    0,
    "shortest time between the end of a checkpoint and the start of the next",
)
MAX_CONCURRENT: Final[Option[int]] = _checkpointing(
    "max-concurrent-checkpoints",
    IntegerType(1),
    1,
    "maximum number of pending checkpoints",
)
TOLERABLE_FAILURES: Final[Option[int]] = _checkpointing(
    "tolerable-failed-checkpoints",
    IntegerType(0),
    0,
    "number of checkpoints in a row that may fail",
)
RETENTION: Final[Option[str]] = _checkpointing(
    "externalized-checkpoint-retention",
    ChoiceType("NO_EXTERNALIZED_CHECKPOINTS", "RETAIN_ON_CANCELLATION", "DELETE_ON_CANCELLATION"),
    "NO_EXTERNALIZED_CHECKPOINTS",
    "whether checkpoints are kept or deleted when the job is cancelled or fails",
)
UNALIGNED: Final[Option[bool]] = _checkpointing(
    "unaligned.enabled",
    BooleanType(),
    False,
    "let barriers overtake the data in buffers",
    "execution.checkpointing.unaligned",
)
FORCE_UNALIGNED: Final[Option[bool]] = _checkpointing(
    "unaligned.forced",
    BooleanType(),
    False,
    "allow unaligned checkpoints where they are not known to be safe",
)
ALIGNED_TIMEOUT: Final[Option[int]] = _checkpointing(
    "aligned-checkpoint-timeout",
    DurationType(),
    0,
    "time that barriers wait before they overtake data; 0 for none",
    "execution.checkpointing.alignment-timeout",
)
BARRIER_BUFFER: Final[Option[str]] = Option(
    "penstock.checkpointing.barrier-buffer",
    ChoiceType("NONE", "MEMORY", "DISK"),
    "NONE",
    "where data behind a barrier waits: in its channel, which stops, or, as in Flink 1.5, in "
    "the memory or on the disk of the task that reads it",
)
BARRIER_BUFFER_LIMIT: Final[Option[int]] = Option(
    "penstock.checkpointing.barrier-buffer.max-size",
    IntegerType(-1),
    -1,
    "bytes that may wait in a task's barrier buffer before the checkpoint is aborted; -1 for "
    "no limit",
    alternate_keys=("task.checkpoint.alignment.max-size",),
)
STORAGE: Final[Option[str]] = _checkpointing(
    "storage",
    ChoiceType("jobmanager", "filesystem"),
    "jobmanager",
    "whether the driver keeps checkpoints in memory, or they are files",
    "state.checkpoint-storage",
)
FOLDER: Final[Option[str | None]] = _checkpointing(
    "dir",
    FolderType(),
    None,
    "directory of the files of checkpoints",
    "state.checkpoints.dir",
    "state.backend.fs.checkpointdir",
)
NUM_RETAINED: Final[Option[int]] = _checkpointing(
    "num-retained",
    IntegerType(1),
    1,
    "number of completed checkpoints to keep",
    "state.checkpoints.num-retained",
)
INCREMENTAL: Final[Option[bool]] = _checkpointing(
    "incremental",
    BooleanType(),
    False,
    "write only the key groups that have changed since the last complete checkpoint",
    "state.backend.incremental",
)
SNAPSHOT_COMPRESSION: Final[Option[bool]] = _checkpointing(
    "snapshot-compression",
    BooleanType(),
    False,
    "compress snapshots of keyed state, each key group by zlib",
)
AFTER_TASKS_FINISH: Final[Option[bool]] = _checkpointing(
    "checkpoints-after-tasks-finish",
    BooleanType(),
    True,
    "take checkpoints when some tasks have finished; tasks then end with a last checkpoint",
    "execution.checkpointing.checkpoints-after-tasks-finish.enabled",
)
INLINE_THRESHOLD: Final[Option[int]] = _checkpointing(
    "data-inline-threshold",
    MemorySizeType(),
    20 * 1024,
    "longest stream of state, in bytes, that is stored in the metadata instead of a file",
    "state.storage.fs.memory-threshold",
    "state.backend.fs.memory-threshold",
)
WRITE_BUFFER_SIZE: Final[Option[int]] = _checkpointing(
    "write-buffer-size",
    MemorySizeType(1),
    1 << 20,
    "bytes of a stream of state that are collected before they are written to its file, "
    "unless `execution.checkpointing.data-inline-threshold` is larger",
    "state.storage.fs.write-buffer-size",
    "state.backend.fs.write-buffer-size",
)
PARALLEL_CLEANER: Final[Option[bool]] = _checkpointing(
    "cleaner.parallel-mode",
    BooleanType(),
    True,
    "delete several files of an obsolete checkpoint at a time",
    "state.checkpoint.cleaner.parallel-mode",
)
LOCAL_BACKUP: Final[Option[bool | None]] = _checkpointing(
    "local-backup.enabled",
    BooleanType(),
    None,
    "whether workers keep copies of checkpoints on their own disks; the default is the value of "
    f"`{state_recovery.FROM_LOCAL.key}`",
)
LOCAL_BACKUP_FOLDERS: Final[Option[tuple[str, ...]]] = _checkpointing(
    "local-backup.dirs",
    FoldersType(),
    (),
    "folders for these copies; the default is those of `io.tmp.dirs`",
    "taskmanager.state.local.root-dirs",
    scope="cluster",
)
SAVEPOINT_FOLDER: Final[Option[str | None]] = _checkpointing(
    "savepoint-dir",
    FolderType(),
    None,
    "directory of savepoints that are requested without one",
    "state.savepoints.dir",
    "savepoints.state.backend.fs.dir",
)


def is_unaligned(configuration: Mapping[str, str]) -> bool:
    """Return whether barriers may overtake data; with AT_LEAST_ONCE they never do."""
    return UNALIGNED.read(configuration) and MODE.read(configuration) == "EXACTLY_ONCE"
