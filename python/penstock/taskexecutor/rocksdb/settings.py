"""RocksDB's settings, read from a job's options."""

from __future__ import annotations

import threading
import weakref
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import rocksdict

from penstock.common.options import rocksdb

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.common.options.option import Option

_COMPRESSIONS: Final[dict[str, str]] = {
    "NO": "none",
    "SNAPPY": "snappy",
    "ZLIB": "zlib",
    "BZLIB2": "bz2",
    "LZ4": "lz4",
    "LZ4HC": "lz4hc",
    "ZSTD": "zstd",
}

#: Number of RocksDB's levels.
_LEVELS: Final = 7


class SharedMemory:
    """The block cache and the write buffers of the databases of a slot.

    Attributes:
        cache: The block cache.
        write_buffers: Accounts for the write buffers; None if each database has its own.
    """

    def __init__(self, limit_bytes: int, write_buffer_ratio: float) -> None:
        """Divide the memory by Flink's formula.

        Write buffers are accounted for in the cache, and exceed their part by half at most: so both
        get a little less.

        Args:
            limit_bytes: Total memory.
            write_buffer_ratio: Share of the write buffers.
        """
        self.limit_bytes = limit_bytes
        self.cache = rocksdict.Cache(int((3 - write_buffer_ratio) * limit_bytes / 3))
        self.write_buffers = rocksdict.WriteBufferManager.new_write_buffer_manager_with_cache(
            int(2 * limit_bytes * write_buffer_ratio / 3), False, self.cache
        )


_shared: weakref.WeakValueDictionary[tuple[bytes, int], SharedMemory]
_shared = weakref.WeakValueDictionary()
_shared_lock = threading.Lock()


def memory_of_slot(
    configuration: Mapping[str, str], job_id: bytes, subtask: int
) -> SharedMemory | None:
    """Return the memory of the databases of one slot, which lives as long as one of them.

    Subtasks with the same number share a slot, unless slot sharing groups are set.

    Args:
        configuration: The job's configuration.
        job_id: The job.
        subtask: The number of the subtask.

    Returns:
        The memory; None if each database has its own.
    """
    if not rocksdb.MANAGED.read(configuration):
        return None
    with _shared_lock:
        memory = _shared.get((job_id, subtask))
        if memory is None:
            memory = _shared[job_id, subtask] = SharedMemory(
                rocksdb.MEMORY_PER_SLOT.read(configuration),
                rocksdb.WRITE_BUFFER_RATIO.read(configuration),
            )
        return memory


@dataclass(frozen=True)
class RocksDBSettings:
    """The options of one database; sizes are in bytes.

    Attributes correspond to the options of `penstock.common.options.rocksdb`.
    """

    partitioned: bool
    block_cache_bytes: int
    block_bytes: int
    metadata_block_bytes: int
    use_bloom_filter: bool
    bloom_filter_bits: float
    write_buffer_bytes: int
    write_buffer_count: int
    write_buffers_merged: int
    compressions: tuple[str, ...]
    compaction_style: str
    dynamic_levels: bool
    target_file_bytes: int
    level_bytes: int
    threads: int
    open_files: int

    @staticmethod
    def of(configuration: Mapping[str, str]) -> RocksDBSettings:
        """Read the options of a job; explicit options override predefined sets."""
        predefined = {
            name: value
            for option, name, value in _PREDEFINED[rocksdb.PREDEFINED.read(configuration)]
            if not option.is_set(configuration)
        }
        settings = RocksDBSettings(
            partitioned=rocksdb.PARTITIONED.read(configuration),
            block_cache_bytes=rocksdb.BLOCK_CACHE_SIZE.read(configuration),
            block_bytes=rocksdb.BLOCK_SIZE.read(configuration),
            metadata_block_bytes=rocksdb.METADATA_BLOCK_SIZE.read(configuration),
            use_bloom_filter=rocksdb.USE_BLOOM_FILTER.read(configuration),
            bloom_filter_bits=rocksdb.BLOOM_FILTER_BITS.read(configuration),
            write_buffer_bytes=rocksdb.WRITE_BUFFER_SIZE.read(configuration),
            write_buffer_count=rocksdb.WRITE_BUFFER_COUNT.read(configuration),
            write_buffers_merged=rocksdb.WRITE_BUFFERS_MERGED.read(configuration),
            compressions=rocksdb.COMPRESSION.read(configuration),
            compaction_style=rocksdb.COMPACTION_STYLE.read(configuration),
            dynamic_levels=rocksdb.DYNAMIC_LEVELS.read(configuration),
            target_file_bytes=rocksdb.TARGET_FILE_SIZE.read(configuration),
            level_bytes=rocksdb.LEVEL_SIZE.read(configuration),
            threads=rocksdb.THREADS.read(configuration),
            open_files=rocksdb.OPEN_FILES.read(configuration),
        )
        return replace(settings, **predefined)

    def options(self, memory: SharedMemory | None) -> rocksdict.Options:
        """Return RocksDB's options.

        Args:
            memory: The memory shared with other databases; None for none.
        """
        options = rocksdict.Options(raw_mode=True)
        options.set_keep_log_file_num(1)
        # With a limit of 0 bytes RocksDB still writes a line now and then.
        options.set_max_log_file_size(1 << 20)
        options.set_max_background_jobs(self.threads)
        options.set_max_open_files(self.open_files)
        options.set_write_buffer_size(self.write_buffer_bytes)
        options.set_max_write_buffer_number(self.write_buffer_count)
        options.set_min_write_buffer_number_to_merge(self.write_buffers_merged)
        kinds = [_COMPRESSIONS[name.removesuffix("_COMPRESSION")] for name in self.compressions]
        kinds += kinds[-1:] * (_LEVELS - len(kinds))
        options.set_compression_per_level(
            [getattr(rocksdict.DBCompressionType, kind)() for kind in kinds]
        )
        self._set_compaction(options)
        blocks = rocksdict.BlockBasedOptions()
        blocks.set_block_size(self.block_bytes)
        blocks.set_metadata_block_size(self.metadata_block_bytes)
        blocks.set_format_version(5)
        if self.use_bloom_filter:
            blocks.set_bloom_filter(self.bloom_filter_bits, False)
        if self.partitioned:
            blocks.set_index_type(rocksdict.BlockBasedIndexType.two_level_index_search())
            blocks.set_partition_filters(True)
            blocks.set_pin_top_level_index_and_filter(True)
        if memory is None:
            blocks.set_block_cache(rocksdict.Cache(self.block_cache_bytes))
        else:
            blocks.set_block_cache(memory.cache)
            blocks.set_cache_index_and_filter_blocks(True)
            blocks.set_pin_l0_filter_and_index_blocks_in_cache(True)
            options.set_write_buffer_manager(memory.write_buffers)
        options.set_block_based_table_factory(blocks)
        return options

    def _set_compaction(self, options: rocksdict.Options) -> None:
        style = rocksdict.DBCompactionStyle
        if self.compaction_style == "UNIVERSAL":
            options.set_compaction_style(style.universal())
        else:
            options.set_compaction_style(style.level())
        if self.compaction_style == "NONE":
            options.set_disable_auto_compactions(True)
        options.set_level_compaction_dynamic_level_bytes(self.dynamic_levels)
        options.set_target_file_size_base(self.target_file_bytes)
        options.set_max_bytes_for_level_base(self.level_bytes)


_SPINNING_DISK: Final[list[tuple[Option[Any], str, Any]]] = [
    (rocksdb.THREADS, "threads", 4),
    (rocksdb.DYNAMIC_LEVELS, "dynamic_levels", True),
]

#: Flink's predefined sets of options, by name.
_PREDEFINED: Final[dict[str, list[tuple[Option[Any], str, Any]]]] = {
    "DEFAULT": [],
    "SPINNING_DISK_OPTIMIZED": _SPINNING_DISK,
    "SPINNING_DISK_OPTIMIZED_HIGH_MEM": [
        *_SPINNING_DISK,
        (rocksdb.TARGET_FILE_SIZE, "target_file_bytes", 256 << 20),
        (rocksdb.LEVEL_SIZE, "level_bytes", 1 << 30),
        (rocksdb.WRITE_BUFFERS_MERGED, "write_buffers_merged", 3),
        (rocksdb.WRITE_BUFFER_COUNT, "write_buffer_count", 4),
        (rocksdb.BLOCK_CACHE_SIZE, "block_cache_bytes", 256 << 20),
        (rocksdb.BLOCK_SIZE, "block_bytes", 128 << 10),
    ],
    "FLASH_SSD_OPTIMIZED": [(rocksdb.THREADS, "threads", 4)],
}
