"""StateBackend: the storage of state while a job runs."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from penstock.common.calls.argument_kinds import checks_arguments
from penstock.common.calls.jvm import requires_jvm
from penstock.common.calls.missing_methods import NoJavaMembers
from penstock.common.options import rocksdb
from penstock.common.options.checkpointing import INCREMENTAL
from penstock.common.options.state import BACKEND
from penstock.common.options.value_types import local_folder
from penstock.errors import InvalidProgramError
from penstock.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from penstock.common.configuration import Configuration

__all__ = [
    "CustomStateBackend",
    "EmbeddedRocksDBStateBackend",
    "HashMapStateBackend",
    "PredefinedOptions",
    "StateBackend",
]


class StateBackend(NoJavaMembers):
    """A state backend; selected by the configuration key state.backend.type.

    Attributes:
        type_name: The value of that key.
    """

    type_name = ""

    def __init__(self) -> None:
        """Create a description; use a subclass."""

    def write_to(self, configuration: Configuration) -> None:
        """Set the options that the description defines (beyond PyFlink)."""
        BACKEND.write(configuration, self.type_name)


class HashMapStateBackend(StateBackend):
    """A backend that stores state as Python objects in memory."""

    type_name = "hashmap"

    def __init__(self, j_hashmap_state_backend: None = None) -> None:
        """Create a description.

        Args:
            j_hashmap_state_backend: Exists only for PyFlink's signature; must be None.
        """
        if j_hashmap_state_backend is not None:
            requires_jvm("HashMapStateBackend(j_hashmap_state_backend)", "pass no argument")
        super().__init__()

    def __str__(self) -> str:
        return "HashMapStateBackend"


class PredefinedOptions(Enum):
    """Sets of RocksDB options for common machines."""

    DEFAULT = 0
    SPINNING_DISK_OPTIMIZED = 1
    SPINNING_DISK_OPTIMIZED_HIGH_MEM = 2
    FLASH_SSD_OPTIMIZED = 3


@checks_arguments
class EmbeddedRocksDBStateBackend(StateBackend):
    """A backend that stores encoded state in RocksDB, on disks of the workers."""

    type_name = "rocksdb"

    def __init__(
        self,
        enable_incremental_checkpointing: bool | None = None,
        j_embedded_rocks_db_state_backend: None = None,
    ) -> None:
        """Create a description.

        Args:
            enable_incremental_checkpointing: Whether checkpoints store only changes.
            j_embedded_rocks_db_state_backend: Exists only for PyFlink's signature; must be None.
        """
        if j_embedded_rocks_db_state_backend is not None:
            requires_jvm("EmbeddedRocksDBStateBackend(java_backend)", "pass no Java object")
        super().__init__()
        self._incremental = enable_incremental_checkpointing
        self._paths: list[str] | None = None
        self._predefined_options: PredefinedOptions | None = None
        self._transfer_threads: int | None = None

    def set_db_storage_paths(self, *paths: str) -> None:
        """Set the folders of the databases; none for the workers' temporary folders.

        Args:
            paths: Absolute paths, or ``file:`` URLs, of which the path is kept.

        Raises:
            InvalidProgramError: A path is relative, belongs to another file system, or contains a
                character that separates folders.
        """
        try:
            folders = [local_folder(path) for path in paths]
        except ValueError as error:
            raise InvalidProgramError(f"set_db_storage_paths: {error}") from None
        for folder in folders:
            if any(separator in folder for separator in ",:|"):
                raise InvalidProgramError(
                    f"set_db_storage_paths: {folder!r} contains ',', ':' or '|', which separate "
                    f"the folders in {rocksdb.LOCAL_FOLDERS.key}: choose another folder"
                )
        self._paths = folders or None

    def get_db_storage_paths(self) -> list[str] | None:
        """Return the folders of the databases; None for the workers' temporary folders."""
        return self._paths

    def is_incremental_checkpoints_enabled(self) -> bool:
        """Return whether checkpoints store only changes."""
        return bool(self._incremental)

    def set_predefined_options(self, options: PredefinedOptions) -> None:
        """Set the options for a kind of machine."""
        self._predefined_options = options

    def get_predefined_options(self) -> PredefinedOptions:
        """Return the options for a kind of machine."""
        return self._predefined_options or PredefinedOptions.DEFAULT

    def set_options(self, options_factory_class_name: str) -> None:
        """Reject the call: option factories are Java classes."""
        requires_jvm(f"set_options({options_factory_class_name!r})", "use set_predefined_options")

    def get_options(self) -> str | None:
        """Return None: there is no option factory."""
        return None

    def get_number_of_transfer_threads(self) -> int:
        """Return the number of threads that copy checkpoint files."""
        return self._transfer_threads or rocksdb.TRANSFER_THREADS.default

    def set_number_of_transfer_threads(self, number_of_transfering_threads: int) -> None:
        """Set the number of threads that copy checkpoint files.

        Raises:
            InvalidProgramError: The argument is not positive.
        """
        if number_of_transfering_threads <= 0:
            raise InvalidProgramError(
                "number_of_transfering_threads must be positive, got "
                f"{number_of_transfering_threads}"
            )
        self._transfer_threads = number_of_transfering_threads

    def __str__(self) -> str:
        return f"EmbeddedRocksDBStateBackend(incremental={bool(self._incremental)})"

    def write_to(self, configuration: Configuration) -> None:
        """Set the options that the description defines; other options remain."""
        super().write_to(configuration)
        if self._incremental is not None:
            INCREMENTAL.write(configuration, self._incremental)
        if self._paths is not None:
            rocksdb.LOCAL_FOLDERS.write(configuration, self._paths)
        if self._predefined_options is not None:
            rocksdb.PREDEFINED.write(configuration, self._predefined_options.name)
        if self._transfer_threads is not None:
            rocksdb.TRANSFER_THREADS.write(configuration, self._transfer_threads)


class CustomStateBackend(StateBackend):
    """PyFlink's wrapper of Java state backends."""

    def __init__(self, j_custom_state_backend: object) -> None:  # noqa: ARG002
        """Reject the call.

        Raises:
            JvmOnlyError: Always.
        """
        requires_jvm("CustomStateBackend", f"set {BACKEND.key} to {BACKEND.value_type.name}")


__getattr__, __dir__ = lazy_exports(
    __name__,
    dict.fromkeys(
        ("FsStateBackend", "MemoryStateBackend", "RocksDBStateBackend"), "penstock.flink_1"
    ),
)
