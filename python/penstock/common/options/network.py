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
    "the size of a network buffer",
    scope="cluster",
)
SEGMENTS: Final = Option(
    "taskmanager.memory.network.segments",
    IntegerType(1),
    2048,
    "network buffers in a TaskExecutor for each job that it serves",
    scope="cluster",
)
MIN_SEGMENT_SIZE: Final = Option(
    "taskmanager.memory.min-segment-size",
    MemorySizeType(1, INFINITE),
    256,
    "the smallest debloated buffer",
    scope="cluster",
)
STARTING_SEGMENT_SIZE: Final = Option(
    "taskmanager.memory.starting-segment-size",
    MemorySizeType(1, INFINITE),
    1 << 10,
    "what the average of debloated buffers starts from",
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
    "how long a task waits for buffers that other tasks hold before it fails",
    alternate_keys=("taskmanager.network.memory.exclusive-buffers-request-timeout-ms",),
    scope="cluster",
)
PARTITION_REQUEST_TIMEOUT: Final = Option(
    "taskmanager.network.partition-request-timeout",
    DurationType(),
    10_000,
    "how long a TaskExecutor waits for a partition that its producer has not made yet",
    scope="cluster",
)
DEBLOAT_ENABLED: Final = Option(
    "taskmanager.network.memory.buffer-debloat.enabled",
    BooleanType(),
    False,
    "make buffers smaller where the consumer is slow, so that what is in flight is processed in "
    "the target time",
    scope="cluster",
)
DEBLOAT_TARGET: Final = Option(
    "taskmanager.network.memory.buffer-debloat.target",
    DurationType(1),
    1_000,
    "that time",
    scope="cluster",
)
DEBLOAT_PERIOD: Final = Option(
    "taskmanager.network.memory.buffer-debloat.period",
    DurationType(1),
    200,
    "how often a task measures its pace and tells its producers",
    scope="cluster",
)
DEBLOAT_SAMPLES: Final = Option(
    "taskmanager.network.memory.buffer-debloat.samples",
    IntegerType(1),
    20,
    "how many measurements the size averages",
    scope="cluster",
)
DEBLOAT_THRESHOLD: Final = Option(
    "taskmanager.network.memory.buffer-debloat.threshold-percentages",
    IntegerType(0, 100),
    25,
    "by how many percent the size must change to be told",
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
    "the longest record that is gathered in memory where it spans buffers; longer ones go through "
    "a temporary file in `io.tmp.dirs`; less than 100 kb counts as that",
    scope="cluster",
)
SAME_HOST: Final = Option(
    "taskmanager.network.same-host.enabled",
    BooleanType(),
    True,
    "TaskExecutors of one host exchange over a Unix socket and shared memory instead of TCP",
    scope="cluster",
)
