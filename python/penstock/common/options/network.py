"""Options of the data plane."""

from typing import Final

from penstock.common.options.option import Option
from penstock.common.options.value_types import (
    INFINITE,
    BooleanType,
    ChoiceType,
    DurationType,
    IntegerType,
    MemorySizeType,
)

SEGMENT_SIZE: Final = Option(
    "taskmanager.memory.segment-size",
    MemorySizeType(1, INFINITE),
    32 << 10,
    "size of a network buffer",
    scope="cluster",
)
LEAST_COMPUTED_SEGMENTS: Final = 2048
"""The smallest computed number of network buffers.

Most jobs need fewer.  Buffers are not resident before they are used, so that the others cost only
64 MiB of addresses, and a job can be rescaled in the slots that it has.
"""
SEGMENTS: Final[Option[int | None]] = Option(
    "taskmanager.memory.network.segments",
    IntegerType(1),
    None,
    "number of network buffers in a TaskExecutor for each job that it serves; by default the sum"
    " of what the tasks of its slots can use in partitions, channels and gates, and at least"
    f" {LEAST_COMPUTED_SEGMENTS}",
    default_text="computed",
    scope="cluster",
)
MIN_SEGMENT_SIZE: Final = Option(
    "taskmanager.memory.min-segment-size",
    MemorySizeType(1, INFINITE),
    256,
    "size of the smallest debloated buffer",
    scope="cluster",
)
STARTING_SEGMENT_SIZE: Final = Option(
    "taskmanager.memory.starting-segment-size",
    MemorySizeType(1, INFINITE),
    1 << 10,
    "initial value of the average size of debloated buffers",
    scope="cluster",
)
BUFFERS_PER_CHANNEL: Final = Option(
    "taskmanager.network.memory.buffers-per-channel",
    IntegerType(0),
    2,
    "exclusive buffers of a remote channel",
    scope="cluster",
)
FLOATING_BUFFERS_PER_GATE: Final = Option(
    "taskmanager.network.memory.floating-buffers-per-gate",
    IntegerType(1),
    8,
    "buffers that the channels of a gate share",
    scope="cluster",
)
BUFFERS_REQUEST_TIMEOUT: Final = Option(
    "taskmanager.network.memory.buffers-request-timeout",
    DurationType(1),
    30_000,
    "time that a task waits for buffers that other tasks hold before it fails",
    alternate_keys=("taskmanager.network.memory.exclusive-buffers-request-timeout-ms",),
    scope="cluster",
)
PARTITION_REQUEST_TIMEOUT: Final = Option(
    "taskmanager.network.partition-request-timeout",
    DurationType(),
    10_000,
    "time that a TaskExecutor waits for a partition that its producer has not created yet",
    scope="cluster",
)
DEBLOAT_ENABLED: Final = Option(
    "taskmanager.network.memory.buffer-debloat.enabled",
    BooleanType(),
    False,
    "make buffers smaller if the consumer is slow, so that in-flight data is processed in the"
    " target time",
    scope="cluster",
)
DEBLOAT_TARGET: Final = Option(
    "taskmanager.network.memory.buffer-debloat.target",
    DurationType(1),
    1_000,
    "target time for processing in-flight data",
    scope="cluster",
)
DEBLOAT_PERIOD: Final = Option(
    "taskmanager.network.memory.buffer-debloat.period",
    DurationType(1),
    200,
    "interval at which a task measures its throughput and notifies its producers",
    scope="cluster",
)
DEBLOAT_SAMPLES: Final = Option(
    "taskmanager.network.memory.buffer-debloat.samples",
    IntegerType(1),
    20,
    "number of measurements over which the size is averaged",
    scope="cluster",
)
DEBLOAT_THRESHOLD: Final = Option(
    "taskmanager.network.memory.buffer-debloat.threshold-percentages",
    IntegerType(0, 100),
    25,
    "change of the size, in percent, below which producers are not notified",
    scope="cluster",
)
COMPRESSION_CODEC: Final = Option(
    "taskmanager.network.compression.codec",
    ChoiceType(
        "none",
        "lz4",
        absent={
            name: f"penstock has no {name} compression: set lz4 or none" for name in ("zstd", "lzo")
        },
    ),
    "none",
    "`lz4` compresses buffers for other TaskExecutors: for slow networks, not for loopback",
    scope="cluster",
)
SPILL_THRESHOLD: Final = Option(
    "taskmanager.network.record.spill-threshold",
    MemorySizeType(),
    5 << 20,
    "longest record across several buffers that is assembled in memory; longer ones go "
    "through a temporary file in `io.tmp.dirs`; less than 100 kb counts as 100 kb",
    scope="cluster",
)
SAME_HOST: Final = Option(
    "taskmanager.network.same-host.enabled",
    BooleanType(),
    True,
    "let TaskExecutors of one host exchange data over a Unix socket and shared memory instead"
    " of TCP",
    scope="cluster",
)
