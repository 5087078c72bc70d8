"""Options of the RocksDB state backend."""

from __future__ import annotations

from typing import Any, Final

from penstock.common.options.option import Option
from penstock.common.options.value_types import (
    BooleanType,
    ChoiceType,
    DurationType,
    IntegerType,
    ListType,
    LocalFoldersType,
    MemorySizeType,
    NumberType,
    ValueType,
)


class CompressionsType(ListType):
    """Compression methods, by level."""

    name = (
        "list of NO_COMPRESSION, SNAPPY_COMPRESSION, ZLIB_COMPRESSION, BZLIB2_COMPRESSION, "
        "LZ4_COMPRESSION, LZ4HC_COMPRESSION and ZSTD_COMPRESSION"
    )

    def parse(self, text: str) -> tuple[str, ...]:
        """Read names."""
        known = self.name.removeprefix("list of ").replace(" and", ",").split(", ")
        names = tuple(part.upper().replace("-", "_") for part in super().parse(text))
        if not names or not set(names) <= set(known):
            raise ValueError(f"must be a {self.name}")
        return names


def _rocksdb(
    name: str, value_type: ValueType[Any], default: Any, meaning: str, default_text: str = ""
) -> Option[Any]:
    return Option(
        f"state.backend.rocksdb.{name}",
        value_type,
        default,
        meaning,
        default_text=default_text or None,
    )


LOCAL_FOLDERS: Final[Option[tuple[str, ...]]] = _rocksdb(
    "localdir",
    LocalFoldersType(),
    (),
    "folders of the databases on the workers, absolute paths or `file:` URLs; created if missing",
    "the temporary folders",
)
CACHE_SIZE: Final[Option[int]] = Option(
    "penstock.rocksdb.cache.size",
    MemorySizeType(1 << 16),
    64 << 20,
    "size of the cache of values of an operator and subtask, beside the database",
)
MANAGED: Final[Option[bool]] = _rocksdb(
    "memory.managed",
    BooleanType(),
    True,
    "share a block cache and write buffers of a given size among the databases of a slot; "
    "with false, each database has its own",
)
MEMORY_PER_SLOT: Final[Option[int]] = _rocksdb(
    "memory.fixed-per-slot",
    MemorySizeType(4 << 20),
    128 << 20,
    "size of the block cache and the write buffers that the databases of a slot share",
)
WRITE_BUFFER_RATIO: Final[Option[float]] = _rocksdb(
    "memory.write-buffer-ratio",
    NumberType(0, 1),
    0.5,
    "part of that memory for write buffers",
)
PARTITIONED: Final[Option[bool]] = _rocksdb(
    "memory.partitioned-index-filters",
    BooleanType(),
    False,
    "read indexes and filters of files in parts, and keep only their first level in memory",
)
BLOCK_CACHE_SIZE: Final[Option[int]] = _rocksdb(
    "block.cache-size",
    MemorySizeType(),
    8 << 20,
    "size of a database's own block cache, without `memory.managed`",
)
BLOCK_SIZE: Final[Option[int]] = _rocksdb(
    "block.blocksize", MemorySizeType(512), 4096, "size of the blocks of files"
)
METADATA_BLOCK_SIZE: Final[Option[int]] = _rocksdb(
    "block.metadata-blocksize",
    MemorySizeType(512),
    4096,
    "size of the parts of indexes and filters, with `memory.partitioned-index-filters`",
)
USE_BLOOM_FILTER: Final[Option[bool]] = _rocksdb(
    "use-bloom-filter",
    BooleanType(),
    True,
    "give files a Bloom filter, so that most are not read for a key that they do not contain",
)
BLOOM_FILTER_BITS: Final[Option[float]] = _rocksdb(
    "bloom-filter.bits-per-key", NumberType(1, 64), 10.0, "bits of the Bloom filter for each key"
)
WRITE_BUFFER_SIZE: Final[Option[int]] = _rocksdb(
    "writebuffer.size",
    MemorySizeType(64 << 10),
    64 << 20,
    "bytes that are collected in memory before a file is written",
)
WRITE_BUFFER_COUNT: Final[Option[int]] = _rocksdb(
    "writebuffer.count", IntegerType(2), 2, "maximum number of write buffers of a database"
)
WRITE_BUFFERS_MERGED: Final[Option[int]] = _rocksdb(
    "writebuffer.number-to-merge",
    IntegerType(1),
    1,
    "number of write buffers that are merged into one file",
)
WRITE_BATCH_SIZE: Final[Option[int]] = _rocksdb(
    "write-batch-size",
    MemorySizeType(),
    8 << 20,
    "bytes of changed rows that are written to a database in one batch; 0 for no limit",
)
COMPRESSION: Final[Option[tuple[str, ...]]] = _rocksdb(
    "compression.per.level",
    CompressionsType(),
    ("SNAPPY_COMPRESSION",),
    "compression of files, by level from the first; the last value also applies to the levels"
    " below",
)
COMPACTION_STYLE: Final[Option[str]] = _rocksdb(
    "compaction.style",
    ChoiceType(
        "LEVEL", "UNIVERSAL", "NONE", absent={"FIFO": "FIFO forgets state: set LEVEL or UNIVERSAL"}
    ),
    "LEVEL",
    "strategy by which files are merged",
)
DYNAMIC_LEVELS: Final[Option[bool]] = _rocksdb(
    "compaction.level.use-dynamic-size",
    BooleanType(),
    False,
    "derive the sizes of levels from that of the last",
)
TARGET_FILE_SIZE: Final[Option[int]] = _rocksdb(
    "compaction.level.target-file-size-base",
    MemorySizeType(64 << 10),
    64 << 20,
    "size of the files of the first level",
)
LEVEL_SIZE: Final[Option[int]] = _rocksdb(
    "compaction.level.max-size-level-base",
    MemorySizeType(64 << 10),
    256 << 20,
    "size of the first level",
)
FILTER_QUERY_ROWS: Final[Option[int]] = _rocksdb(
    "compaction.filter.query-time-after-num-entries",
    IntegerType(1),
    1000,
    "number of rows with a time to live after which the clock is read again while expired "
    "rows are removed; a `cleanup_in_rocksdb_compact_filter` of the state takes precedence",
)
FILTER_PERIOD: Final[Option[int]] = _rocksdb(
    "compaction.filter.periodic-compaction-time",
    DurationType(),
    30 * 24 * 3_600_000,
    "time after which all rows with a time to live are checked, however few are written; 0 "
    "for never",
)
THREADS: Final[Option[int]] = _rocksdb(
    "thread.num", IntegerType(1), 2, "threads of a database that write and merge files"
)
OPEN_FILES: Final[Option[int]] = _rocksdb(
    "files.open", IntegerType(-1), -1, "maximum number of open files of a database; -1 for no limit"
)
TRANSFER_THREADS: Final[Option[int]] = _rocksdb(
    "checkpoint.transfer.thread.num",
    IntegerType(1),
    4,
    "threads that write the files of a checkpoint, and fetch them on a restore",
)
PREDEFINED: Final[Option[str]] = _rocksdb(
    "predefined-options",
    ChoiceType(
        "DEFAULT",
        "SPINNING_DISK_OPTIMIZED",
        "SPINNING_DISK_OPTIMIZED_HIGH_MEM",
        "FLASH_SSD_OPTIMIZED",
    ),
    "DEFAULT",
    "other defaults of the options above, for a kind of machine",
)
TIMERS: Final[Option[str]] = _rocksdb(
    "timer-service.factory",
    ChoiceType("HEAP", absent={"ROCKSDB": "timers are kept in memory: set HEAP"}),
    "HEAP",
    "where timers are kept",
)
