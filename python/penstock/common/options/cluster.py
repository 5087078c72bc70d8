"""Options of the cluster: its target, its workers, and the traffic between driver and workers."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from penstock.common.options.option import Option
from penstock.common.options.value_types import (
    BooleanType,
    ChoiceType,
    DurationType,
    FoldersType,
    IntegerType,
    LevelsType,
    LevelType,
    MemorySizeType,
    TextType,
)
from penstock.errors import ConfigurationError

TARGET: Final[Option[str | None]] = Option(
    "execution.target",
    ChoiceType(
        "spark",
        "local",
        "in-process",
        "session",
        aliases={"remote": "session"},
        absent=dict.fromkeys(
            (
                "yarn-application",
                "yarn-per-job",
                "yarn-session",
                "kubernetes-application",
                "kubernetes-session",
            ),
            "penstock starts no cluster of YARN or Kubernetes: choose spark, whose spark.master is "
            "yarn or k8s://URL, or session",
        ),
    ),
    None,
    "where the TaskExecutors run; also `PENSTOCK_EXECUTION_TARGET`; Flink's `remote` is `session`",
    default_text="spark where a SparkSession is active and, with `penstock run`, where a Spark is "
    "configured; else local",
    scope="cluster",
)
RUNTIME: Final[Option[str | None]] = Option(
    "penstock.runtime",
    ChoiceType("native", "pure"),
    None,
    "data plane of the workers; also `PENSTOCK_RUNTIME`",
    default_text="that of the driver, native",
    scope="cluster",
)
PROGRESS: Final = Option(
    "penstock.progress",
    BooleanType(),
    True,
    "show the progress of a job that takes longer than 2 s in the last line of the terminal",
)
SLOTS_PER_EXECUTOR: Final[Option[int | None]] = Option(
    "taskmanager.numberOfTaskSlots",
    IntegerType(1),
    None,
    "slots in one TaskExecutor; its tasks share one interpreter",
    default_text="1; more where Spark has too few places",
    scope="cluster",
)
SHORT_TIME_SLICES: Final[Option[bool | None]] = Option(
    "penstock.short-time-slices",
    BooleanType(),
    None,
    "ask the kernel for short time slices of TaskExecutors (Linux 6.12 and later), so that no"
    " record waits for the end of another thread's slice",
    default_text="true where `execution.buffer-timeout.interval` is 10 ms or less",
    scope="cluster",
)
SLOT_REQUEST_TIMEOUT: Final = Option(
    "slot.request.timeout",
    DurationType(),
    300_000,
    "longest time that a job waits for its slots",
    scope="cluster",
)
SLOT_TIMEOUT: Final = Option(
    "taskmanager.slot.timeout",
    DurationType(),
    10_000,
    "time that a TaskExecutor keeps a slot for a job that deploys no task to it",
    alternate_keys=("pekko.ask.timeout",),
    scope="cluster",
)
HEARTBEAT_INTERVAL: Final = Option(
    "heartbeat.interval",
    DurationType(1),
    10_000,
    "interval of the heartbeats between driver and TaskExecutors",
    scope="cluster",
)
HEARTBEAT_TIMEOUT: Final = Option(
    "heartbeat.timeout",
    DurationType(1),
    50_000,
    "time without heartbeats after which the other side counts as lost",
    scope="cluster",
)
SHUTDOWN_GRACE: Final = Option(
    "cluster.shutdown.grace",
    DurationType(),
    5_000,
    "time for workers to exit before they are killed",
    scope="cluster",
)
BIND_HOST: Final = Option(
    "jobmanager.bind-host",
    TextType(),
    "127.0.0.1",
    "address on which the control port listens",
    default_text="127.0.0.1; on a Spark cluster `spark.driver.host`",
    scope="cluster",
)
#: Wildcard addresses, each with the address at which the machine then reaches itself.
EVERY_ADDRESS: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}
RPC_ADDRESS: Final = Option(
    "jobmanager.rpc.address",
    TextType(),
    None,
    "address by which others reach the control port, if it is not the one on which it listens",
    default_text="`jobmanager.bind-host`; if that is every address, on Spark `spark.driver.host`",
    scope="cluster",
)
FAILOVER_STRATEGY: Final = Option(
    "jobmanager.execution.failover-strategy",
    ChoiceType("region", "full"),
    "region",
    "tasks that restart after a failure: those that exchange data with the failed one, or all",
)
RELEASE_PARTITIONS: Final = Option(
    "jobmanager.partition.release-during-job-execution",
    BooleanType(),
    True,
    "in BATCH mode, delete the output of a stage as soon as all its readers have finished; "
    "with false it is kept to the end, so that less is recomputed after a loss",
)
CANCELLATION_INTERVAL: Final = Option(
    "task.cancellation.interval",
    DurationType(1),
    30_000,
    "time between two attempts to interrupt a task that does not react",
    alternate_keys=("task.cancellation-interval",),
)
CANCELLATION_TIMEOUT: Final = Option(
    "task.cancellation.timeout",
    DurationType(),
    180_000,
    "time after which a task that does not react ends its TaskExecutor; 0 waits forever",
)
LIVENESS_TIMEOUT: Final = Option(
    "task.liveness.timeout",
    DurationType(),
    0,
    "time after which a task whose thread is held, by a function, a disk or a lock, ends its "
    "TaskExecutor; must be longer than a function takes for one record; 0 turns it off",
    default_text="0 ms",
)
MANAGED_MEMORY: Final = Option(
    "taskmanager.memory.managed.size",
    MemorySizeType(1 << 20, may_be_zero=True),
    512 << 20,
    "memory of a TaskExecutor, shared by its slots, for sorting in BATCH jobs: three quarters for "
    "keyed inputs, beside at least 1 mb for each sort, and a quarter for the output of stages, "
    "beside at least 1 kb for each subtask that reads it; the rest is sorted on disk, in "
    "`io.tmp.dirs`",
    alternate_keys=("taskmanager.memory.size",),
    scope="cluster",
)
TEMPORARY_FOLDERS: Final = Option(
    "io.tmp.dirs",
    FoldersType(),
    (),
    "folders for data that exceeds memory, on the driver's machine and those of the workers",
    alternate_keys=("taskmanager.tmp.dirs",),
    default_text="the system's; in Spark its local folders",
    scope="cluster",
)
ATTACHED: Final = Option(
    "execution.attached",
    BooleanType(),
    True,
    "whether `execute` waits for a job in a session, and the job is cancelled if its program "
    "is lost; false with `penstock run -d`, and rejected elsewhere",
)
SESSION: Final[Option[str | None]] = Option(
    "penstock.session",
    TextType(),
    None,
    "session of the job, with target session: its name on this machine, or host:port; also "
    "`PENSTOCK_SESSION`; see [Sessions](sessions.md)",
    default_text="the only one of this user on this machine",
)
MAX_ENDED_JOBS: Final = Option(
    "jobstore.max-capacity",
    IntegerType(1),
    100,
    "number of finished jobs that a session still shows",
    scope="cluster",
)
RPC_PORT: Final = Option(
    "jobmanager.rpc.port",
    IntegerType(0, 65535),
    6123,
    "port on which `penstock jobmanager` listens; 0 for any free port",
    scope="cluster",
)
REGISTRATION_TIMEOUT: Final = Option(
    "taskmanager.registration.timeout",
    DurationType(1),
    300_000,
    "time that `penstock taskexecutor` looks for its jobmanager, and a program for the "
    "jobmanager that takes over its job",
    alternate_keys=("taskmanager.maxRegistrationDuration",),
    scope="cluster",
)
LOG_LEVEL: Final[Option[str | None]] = Option(
    "logging.level",
    LevelType(),
    None,
    "level from which on TaskExecutors log, user code included, unless a logger has its own "
    "level; on target in-process, the program's own logging applies",
    alternate_keys=("python.logging.default.level", "env.log.level"),
    default_text="that of the driver's root logger; INFO where the program has not set up logging",
    scope="cluster",
)
LOG_LEVELS: Final[Option[dict[str, str]]] = Option(
    "python.logging.level.overrides",
    LevelsType(),
    {},
    "levels from which on TaskExecutors log, by the names of loggers, such as "
    "`shop:DEBUG,py4j:ERROR`; these override the program's",
    scope="cluster",
)


def check_folders(temporary_folders: Iterable[str]) -> None:
    """Check the folders of `TEMPORARY_FOLDERS` on this machine.

    Raises:
        ConfigurationError: One is not a folder; names it.
    """
    for folder in temporary_folders:
        if not Path(folder).is_dir():
            raise ConfigurationError(f"{TEMPORARY_FOLDERS.key}: there is no folder {folder!r}")
