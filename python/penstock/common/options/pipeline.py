"""Options of one job: its graph and how its operators run."""

from typing import Final

from penstock.common.options.option import Option
from penstock.common.options.value_types import (
    BooleanType,
    ChoiceType,
    DurationType,
    IntegerType,
    MapType,
    ParallelismsType,
    TextType,
)

MAX_PARALLELISM_BOUND: Final = 1 << 15

NAME: Final = Option(
    "pipeline.name",
    TextType(),
    "Flink Streaming Job",
    "name of jobs that are executed without one",
)
PARALLELISM: Final = Option(
    "parallelism.default", IntegerType(1), 1, "parallelism of operators that set none"
)
MAX_PARALLELISM: Final[Option[int | None]] = Option(
    "pipeline.max-parallelism",
    IntegerType(1, MAX_PARALLELISM_BOUND),
    None,
    "number of key groups",
    default_text="from the parallelism",
)
RUNTIME_MODE: Final = Option(
    "execution.runtime-mode",
    ChoiceType("STREAMING", "BATCH", "AUTOMATIC"),
    "STREAMING",
    "STREAMING, or BATCH for bounded input; AUTOMATIC chooses BATCH if all sources are bounded",
)
BATCH_SHUFFLE_MODE: Final = Option(
    "execution.batch-shuffle-mode",
    ChoiceType(
        "ALL_EXCHANGES_BLOCKING",
        "ALL_EXCHANGES_PIPELINED",
        absent={
            "ALL_EXCHANGES_HYBRID_FULL": "use ALL_EXCHANGES_BLOCKING",
            "ALL_EXCHANGES_HYBRID_SELECTIVE": "use ALL_EXCHANGES_BLOCKING",
        },
    ),
    "ALL_EXCHANGES_BLOCKING",
    "in BATCH mode, whether a stage starts when those before it have finished, reading their "
    "files in `io.tmp.dirs`, or all stages run at the same time",
)
BUFFER_TIMEOUT: Final = Option(
    "execution.buffer-timeout.interval",
    DurationType(),
    100,
    "longest time that a record waits in a buffer that is not full; 0 flushes after every record",
    alternate_keys=("execution.buffer-timeout",),
)
BUFFER_TIMEOUT_ENABLED: Final = Option(
    "execution.buffer-timeout.enabled",
    BooleanType(),
    True,
    "flush buffers after the timeout; with false, only full buffers are sent",
)
CHAINING: Final = Option(
    "pipeline.operator-chaining.enabled",
    BooleanType(),
    True,
    "chain operators into one task",
    alternate_keys=("pipeline.operator-chaining",),
)
CHAIN_DIFFERENT_MAX_PARALLELISM: Final = Option(
    "pipeline.operator-chaining.chain-operators-with-different-max-parallelism",
    BooleanType(),
    True,
    "chain operators with different numbers of key groups",
)
INDEX_IN_NAMES: Final = Option(
    "pipeline.vertex-name-include-index-prefix",
    BooleanType(),
    False,
    "put the position of each vertex in front of its name, as `[vertex-0]Source: numbers`",
)
DESCRIPTION_MODE: Final = Option(
    "pipeline.vertex-description-mode",
    ChoiceType("TREE", "CASCADING"),
    "TREE",
    "show the operators of a vertex line by line in the plan of the REST interface (TREE), or"
    " in one line",
)
PARALLELISM_OVERRIDES: Final[Option[dict[str, int]]] = Option(
    "pipeline.jobvertex-parallelism-overrides",
    ParallelismsType(),
    {},
    "parallelism of vertices, by the ids that the REST interface and `penstock info --json` "
    "show; overrides the program's",
)
AUTO_GENERATE_UIDS: Final = Option(
    "pipeline.auto-generate-uids",
    BooleanType(),
    True,
    "generate ids from the topology for operators without uid; with false they are an error",
)
AUTO_WATERMARK_INTERVAL: Final = Option(
    "pipeline.auto-watermark-interval",
    DurationType(),
    200,
    "interval at which watermarks are emitted; 0 turns it off",
)
WINDOW_RESULT_TIMESTAMP: Final = Option(
    "pipeline.window-result-timestamp",
    ChoiceType("FIRING", "WINDOW_END"),
    "FIRING",
    "the timestamp of a window's results: that of the timer or record that fired it, as in "
    "PyFlink, or the last millisecond of the window, as in Java",
)
ALLOW_UNALIGNED_SPLITS: Final = Option(
    "pipeline.watermark-alignment.allow-unaligned-source-splits",
    BooleanType(),
    False,
    "let sources whose splits cannot be paused take part in watermark alignment",
)
OBJECT_REUSE: Final = Option(
    "pipeline.object-reuse",
    BooleanType(),
    False,
    "let chained operators and states share mutable objects",
)
COLUMNS: Final = Option(
    "pipeline.columns",
    ChoiceType("auto", "off"),
    "auto",
    "let records travel as batches of columns if a source has them and operators compute with"
    " them; results are the same",
)
CLOSURE_CLEANER: Final = Option(
    "pipeline.closure-cleaner-level",
    ChoiceType("NONE", "TOP_LEVEL", "RECURSIVE"),
    "RECURSIVE",
    "kept for programs that set it",
    awaits="functions are always pickled with what they use",
)
JOB_PARAMETERS: Final = Option(
    "pipeline.global-job-parameters",
    MapType(),
    {},
    "parameters that functions can read from their runtime context",
)
LATENCY_INTERVAL: Final = Option(
    "metrics.latency.interval",
    DurationType(),
    0,
    "interval at which sources send latency markers; 0 sends none",
)
LATENCY_GRANULARITY: Final = Option(
    "metrics.latency.granularity",
    ChoiceType("single", "operator", "subtask"),
    "operator",
    "how latencies are grouped: for each operator only, for each source and operator, or for "
    "each subtask",
)
COMMITTER_RETRIES: Final = Option(
    "sink.committer.retries",
    IntegerType(0),
    10,
    "number of retries of a commit that a sink's committer asked to retry",
)
