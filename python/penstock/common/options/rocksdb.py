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
    """Ways to compress, by level."""

    name = (
        "list of NO_COMPRESSION, SNAPPY_COMPRESSION, ZLIB_COMPRESSION, BZLIB2_COMPRESSION, "
        "LZ4_COMPRESSION, LZ4HC_COMPRESSION and ZSTD_COMPRESSION"
    )

    def parse(self, text: str) -> tuple[str, ...]:
        """Reads names."""
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
    "folders of the databases on the workers, absolute paths or `file:` URLs; made when missing",
    "the temporary folders",
)
CACHE_SIZE: Final[Option[int]] = Option(
    "penstock.rocksdb.cache.size",
    MemorySizeType(1 << 16),
    64 << 20,
    "how much of the state of an operator and subtask is in memory as values, beside the database",
)
MANAGED: Final[Option[bool]] = _rocksdb(
    "memory.managed",
    BooleanType(),
    True,
    "whether the databases of a slot share a block cache and write buffers of a given size; else "
    "each has its own",
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
    "the part of it that is for write buffers",
)
PARTITIONED: Final[Option[bool]] = _rocksdb(
    "memory.partitioned-index-filters",
    BooleanType(),
    False,
    "whether indexes and filters of files are read in parts, of which only the first level is kept",
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
    "whether files have a filter by which most are not read for a key that they do not have",
)
BLOOM_FILTER_BITS: Final[Option[float]] = _rocksdb(
    "bloom-filter.bits-per-key", NumberType(1, 64), 10.0, "bits of that filter for each key"
)
WRITE_BUFFER_SIZE: Final[Option[int]] = _rocksdb(
    "writebuffer.size",
    MemorySizeType(64 << 10),
    64 << 20,
    "bytes that gather in memory before a file is written",
)
WRITE_BUFFER_COUNT: Final[Option[int]] = _rocksdb(
    "writebuffer.count", IntegerType(2), 2, "how many write buffers a database has at most"
)
WRITE_BUFFERS_MERGED: Final[Option[int]] = _rocksdb(
    "writebuffer.number-to-merge",
    IntegerType(1),
    1,
    "how many write buffers go into one file",
)
WRITE_BATCH_SIZE: Final[Option[int]] = _rocksdb(
    "write-batch-size",
    MemorySizeType(),
    8 << 20,
    "bytes of changed rows that are written to a database at once; 0 for any number",
)
COMPRESSION: Final[Option[tuple[str, ...]]] = _rocksdb(
    "compression.per.level",
    CompressionsType(),
    ("SNAPPY_COMPRESSION",),
    "how files are compressed, by level from the first; the last counts for those below",
)
COMPACTION_STYLE: Final[Option[str]] = _rocksdb(
    "compaction.style",
    ChoiceType(
        "LEVEL", "UNIVERSAL", "NONE", absent={"FIFO": "FIFO forgets state: set LEVEL or UNIVERSAL"}
    ),
    "LEVEL",
    "how files are merged",
)
DYNAMIC_LEVELS: Final[Option[bool]] = _rocksdb(
    "compaction.level.use-dynamic-size",
    BooleanType(),
    False,
    "whether the sizes of levels follow that of the last",
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
    "after how many rows of state with a time to live the clock is read again while those that "
    "have expired are removed; a `cleanup_in_rocksdb_compact_filter` of the state comes first",
)
FILTER_PERIOD: Final[Option[int]] = _rocksdb(
    "compaction.filter.periodic-compaction-time",
    DurationType(),
    30 * 24 * 3_600_000,
    "after how long all rows of such state are looked at, however few are written; 0 for never",
)
THREADS: Final[Option[int]] = _rocksdb(
    "thread.num", IntegerType(1), 2, "threads of a database that write and merge files"
)
OPEN_FILES: Final[Option[int]] = _rocksdb(
    "files.open", IntegerType(-1), -1, "files that a database has open at most; -1 for any number"
)
TRANSFER_THREADS: Final[Option[int]] = _rocksdb(
    "checkpoint.transfer.thread.num",
    IntegerType(1),
    4,
    "threads that write the files of a checkpoint, and fetch them when a task starts from it",
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
