"""Each option of state and checkpoints has a test of its effect; invalid values are rejected.

Goal: no option can be added here that has no effect, or accepts any value.  Method: the registry of
options is compared with a table of tests; options without one elsewhere are tested here.
"""

import ast
import dataclasses
import logging
from pathlib import Path
from types import SimpleNamespace

import pytest
import rocksdict
from penstock.checkpoint_storage.storage import configured_directory
from penstock.common import Configuration, Duration, Time, Types
from penstock.common.options import changelog, checkpointing, rocksdb, state, state_recovery
from penstock.common.options.check import check_options, warn_of_idle_options
from penstock.common.options.registry import options_of
from penstock.common.options.value_types import FoldersType, FolderType, TextType
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.state import StateTtlConfig
from penstock.datastream.state_backend import EmbeddedRocksDBStateBackend
from penstock.errors import ConfigurationError, InvalidProgramError
from penstock.rpc.task_deployment import TaskDeploymentDescriptor
from penstock.taskexecutor.rocksdb.settings import RocksDBSettings, memory_of_slot
from penstock.taskexecutor.worker.launch import LaunchSpec
from penstock.taskexecutor.worker.slot_resources import SlotResources

TESTS = Path(__file__).parents[2]
HERE = "unit/common/test_state_options.py"
SETTINGS = "unit/jobmaster/checkpointing/test_settings.py"
STARTING = "recovery/test_starting_from_savepoints.py"
FAULTS = "recovery/test_storage_faults.py"
RECOVERY = "recovery/test_recovery.py"
ROCKSDB = "unit/taskexecutor/test_rocksdb_backend.py"
ROCKSDB_FILES = "unit/taskexecutor/test_rocksdb_files.py"
TIME_TO_LIVE = "unit/taskexecutor/test_time_to_live.py"
ENDS = "unit/taskexecutor/checkpointing/test_final_checkpoints.py"
EACH = f"{SETTINGS}::test_each_option_changes_one_setting"

#: By key, a test that shows the option's effect.
LOGS = "recovery/test_changelog.py"
LOGGED = "unit/taskexecutor/checkpointing/test_changelog_states.py"
EFFECTS = {
    "execution.checkpointing.interval": f"{RECOVERY}::test_tasks_end_with_a_last_checkpoint",
    "execution.checkpointing.mode": EACH,
    "execution.checkpointing.timeout": EACH,
    "execution.checkpointing.min-pause": EACH,
    "execution.checkpointing.max-concurrent-checkpoints": EACH,
    "execution.checkpointing.tolerable-failed-checkpoints": EACH,
    "execution.checkpointing.externalized-checkpoint-retention": EACH,
    "execution.checkpointing.unaligned.enabled": EACH,
    "execution.checkpointing.unaligned.forced": (
        f"{HERE}::test_forced_unaligned_checkpoints_are_not_refused"
    ),
    "execution.checkpointing.aligned-checkpoint-timeout": EACH,
    "penstock.checkpointing.barrier-buffer": (
        f"{RECOVERY}::test_records_in_a_barrier_buffer_arrive_once"
    ),
    "penstock.checkpointing.barrier-buffer.max-size": (
        "unit/taskexecutor/test_task_input.py::test_a_barrier_buffer_has_the_size_that_is_set"
    ),
    "execution.checkpointing.storage": f"{HERE}::test_the_directory_of_checkpoints",
    "execution.checkpointing.dir": f"{HERE}::test_the_directory_of_checkpoints",
    "execution.checkpointing.num-retained": EACH,
    "execution.checkpointing.incremental": (
        "recovery/test_object_stores.py::test_a_job_survives_the_death_of_a_worker"
    ),
    "execution.checkpointing.snapshot-compression": (
        f"{STARTING}::test_state_is_restored_compressed_or_not"
    ),
    "execution.checkpointing.checkpoints-after-tasks-finish": EACH,
    "execution.checkpointing.data-inline-threshold": (
        f"{STARTING}::test_a_damaged_file_of_a_savepoint_is_named"
    ),
    "execution.checkpointing.write-buffer-size": (
        f"{ENDS}::test_state_goes_to_its_file_in_pieces_of_the_size_that_is_set"
    ),
    "execution.checkpointing.cleaner.parallel-mode": EACH,
    "execution.checkpointing.local-backup.enabled": (
        f"{HERE}::test_the_options_that_keep_copies_of_checkpoints"
    ),
    "execution.checkpointing.local-backup.dirs": (
        f"{HERE}::test_the_options_that_keep_copies_of_checkpoints"
    ),
    "execution.checkpointing.savepoint-dir": (
        "recovery/test_savepoints.py::test_checkpoints_and_savepoints_do_not_disturb_each_other"
    ),
    "state.backend.type": f"{RECOVERY}::test_state_is_exact_after_failures",
    "state.changelog.enabled": f"{LOGS}::test_each_option_has_its_effect",
    "state.changelog.storage": f"{LOGS}::test_each_option_has_its_effect",
    "state.changelog.periodic-materialize.enabled": f"{LOGS}::test_each_option_has_its_effect",
    "state.changelog.periodic-materialize.interval": f"{LOGS}::test_each_option_has_its_effect",
    "state.changelog.max-failures-allowed": (
        "unit/taskexecutor/checkpointing/test_materialization.py::test_a_whole_that_cannot_be_written"
    ),
    "state.changelog.dstl.dfs.base-path": f"{LOGS}::test_each_option_has_its_effect",
    "state.changelog.dstl.dfs.compression.enabled": f"{LOGGED}::test_a_log_is_compressed",
    "state.changelog.dstl.dfs.upload.retry-policy": f"{LOGGED}::test_attempts_to_write_the_log",
    "state.changelog.dstl.dfs.upload.max-attempts": f"{LOGGED}::test_attempts_to_write_the_log",
    "state.changelog.dstl.dfs.upload.next-attempt-delay": (
        f"{LOGGED}::test_attempts_to_write_the_log"
    ),
    "execution.state-recovery.path": f"{STARTING}::test_a_program_may_try_again",
    "execution.state-recovery.ignore-unclaimed-state": (
        f"{STARTING}::test_state_of_an_operator_that_is_gone"
    ),
    "execution.state-recovery.from-local": (
        f"{HERE}::test_the_options_that_keep_copies_of_checkpoints"
    ),
    "execution.state-recovery.claim-mode": (
        f"{STARTING}::test_the_owner_of_a_retained_checkpoint_deletes_it"
    ),
    "state.backend.rocksdb.localdir": (
        f"{ROCKSDB}::test_settings_of_an_environment_match_its_options"
    ),
    "penstock.rocksdb.cache.size": "unit/taskexecutor/rocksdb_backends.py::make",
    "state.backend.rocksdb.write-batch-size": (
        f"{ROCKSDB}::test_changed_rows_are_written_in_batches_of_the_size_that_is_set"
    ),
    "state.backend.rocksdb.memory.managed": (
        f"{ROCKSDB}::test_the_databases_of_a_slot_share_their_memory"
    ),
    "state.backend.rocksdb.memory.fixed-per-slot": f"{HERE}::test_the_shared_memory_of_databases",
    "state.backend.rocksdb.memory.write-buffer-ratio": (
        f"{HERE}::test_the_shared_memory_of_databases"
    ),
    "state.backend.rocksdb.checkpoint.transfer.thread.num": (
        f"{ROCKSDB_FILES}::test_files_are_fetched_by_as_many_threads_as_are_set"
    ),
    "state.backend.rocksdb.predefined-options": (
        f"{ROCKSDB}::test_options_that_are_set_count_more_than_predefined_ones"
    ),
    "state.backend.rocksdb.compaction.filter.query-time-after-num-entries": (
        f"{TIME_TO_LIVE}::test_an_option_says_how_often_the_clock_is_read"
    ),
    "state.backend.rocksdb.compaction.filter.periodic-compaction-time": (
        f"{TIME_TO_LIVE}::test_an_option_says_when_all_rows_are_looked_at"
    ),
    "state.backend.rocksdb.timer-service.factory": (
        f"{ROCKSDB}::test_unavailable_settings_are_rejected"
    ),
}

#: By option: a value, the settings that it changes, and a line of a database's own options.
OF_DATABASES = {
    "block.cache-size": (
        "1 mb",
        {"block_cache_bytes": 1 << 20},
        "rocksdb.block-cache-capacity=1048576",
    ),
    "memory.partitioned-index-filters": (
        "true",
        {"partitioned": True},
        "index_type=kTwoLevelIndexSearch",
    ),
    "block.blocksize": ("8 kb", {"block_bytes": 8 << 10}, "block_size=8192"),
    "block.metadata-blocksize": (
        "8 kb",
        {"metadata_block_bytes": 8 << 10},
        "metadata_block_size=8192",
    ),
    "use-bloom-filter": ("false", {"use_bloom_filter": False}, "filter_policy=nullptr"),
    "bloom-filter.bits-per-key": ("12", {"bloom_filter_bits": 12.0}, "filter block size=3013"),
    "writebuffer.size": ("1 mb", {"write_buffer_bytes": 1 << 20}, "write_buffer_size=1048576"),
    "writebuffer.count": ("5", {"write_buffer_count": 5}, "max_write_buffer_number=5"),
    "writebuffer.number-to-merge": (
        "2",
        {"write_buffers_merged": 2},
        "min_write_buffer_number_to_merge=2",
    ),
    "compression.per.level": (
        "NO_COMPRESSION",
        {"compressions": ("NO_COMPRESSION",)},
        "compression_per_level=kNoCompression:kNoCompression:kNoCompression:kNoCompression:kNoCompression:kNoCompression:kNoCompression",
    ),
    "compaction.style": (
        "UNIVERSAL",
        {"compaction_style": "UNIVERSAL"},
        "compaction_style=kCompactionStyleUniversal",
    ),
    "compaction.level.use-dynamic-size": (
        "true",
        {"dynamic_levels": True},
        "level_compaction_dynamic_level_bytes=true",
    ),
    "compaction.level.target-file-size-base": (
        "1 mb",
        {"target_file_bytes": 1 << 20},
        "target_file_size_base=1048576",
    ),
    "compaction.level.max-size-level-base": (
        "1 mb",
        {"level_bytes": 1 << 20},
        "max_bytes_for_level_base=1048576",
    ),
    "thread.num": ("3", {"threads": 3}, "max_background_jobs=3"),
    "files.open": ("100", {"open_files": 100}, "max_open_files=100"),
}
EFFECTS |= {
    f"state.backend.rocksdb.{name}": f"{HERE}::test_each_option_of_databases_changes_one_setting"
    for name in OF_DATABASES
}
OPTIONS = [
    option
    for module in (changelog, checkpointing, state, state_recovery, rocksdb)
    for option in options_of(module)
]


@pytest.mark.parametrize("key", ["state.backend", "state.backend.type"])
def test_a_state_backend_has_the_name_of_its_factory_in_flink(key):
    old = "org.apache.flink.contrib.streaming.state.EmbeddedRocksDBStateBackendFactory"
    assert state.BACKEND.read({key: old}) == "rocksdb"
    heap = "org.apache.flink.runtime.state.hashmap.HashMapStateBackendFactory"
    assert state.BACKEND.read({key: heap}) == "hashmap"


def test_each_option_has_a_test_of_its_effect():
    assert sorted(EFFECTS) == sorted(option.key for option in OPTIONS)
    for key, place in EFFECTS.items():
        path, _, name = place.partition("::")
        source = (TESTS / path).read_text()
        names = {node.name for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)}
        assert name in names, place
        named = key
        for prefix in ("execution.checkpointing.", "state.backend.rocksdb.", "state.changelog."):
            named = named.removeprefix(prefix)
        assert named in source, f"{path} does not name {key}"


WRONG_TEXTS = ("-7", "no such thing", "0.5.5")


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.key)
def test_invalid_values_are_rejected_before_the_start(option):
    """Any text that is not blank is a folder name; all other options reject each of these."""
    if isinstance(option.value_type, FolderType):
        with pytest.raises(ConfigurationError, match=f"{option.key}: ' ': must be a path or URL"):
            check_options({option.key: " "})
        return
    if isinstance(option.value_type, FoldersType | TextType):
        return
    for text in WRONG_TEXTS:
        with pytest.raises(ConfigurationError, match=option.key):
            check_options({option.key: text})


@pytest.mark.parametrize("older", [
    "state.storage.fs.memory-threshold", "state.backend.fs.memory-threshold",
])  # fmt: skip
def test_the_longest_stream_without_a_file_by_its_older_keys(older):
    """Flink 2 still accepts the keys of Flink 1."""
    assert checkpointing.INLINE_THRESHOLD.read({older: "3 kb"}) == 3 << 10


@pytest.mark.parametrize("name", OF_DATABASES)
def test_each_option_of_databases_changes_one_setting(name, tmp_path):
    """The option changes that setting of a database."""
    text, changed, line = OF_DATABASES[name]
    configuration = {f"state.backend.rocksdb.{name}": text}
    if name == "writebuffer.number-to-merge":
        configuration["state.backend.rocksdb.writebuffer.count"] = "5"
        changed = {**changed, "write_buffer_count": 5}
    settings = RocksDBSettings.of(configuration)
    assert settings == dataclasses.replace(RocksDBSettings.of({}), **changed)
    without, having = (
        of_database(one, tmp_path / folder)
        for one, folder in ((RocksDBSettings.of({}), "without"), (settings, "having"))
    )
    assert line in having
    assert line not in without


def of_database(settings, folder):
    """Return the options that a database has stored, and some of its figures."""
    database = rocksdict.Rdict(str(folder), settings.options(None))
    for number in range(2000):
        database[number.to_bytes(8)] = bytes(8)
    database.flush()
    cache, tables = "rocksdb.block-cache-capacity", "rocksdb.aggregated-table-properties"
    found = {f"{cache}={database.property_value(cache)}"}
    found.update(database.property_value(tables).split("; "))
    database.close()
    for path in folder.glob("OPTIONS*"):
        found.update(line.strip() for line in path.read_text().splitlines())
    return found


def test_the_shared_memory_of_databases():
    options = {
        "state.backend.rocksdb.memory.fixed-per-slot": "12 mb",
        "state.backend.rocksdb.memory.write-buffer-ratio": "0.25",
    }
    memory = memory_of_slot(options, b"another job", 0)
    assert memory.limit_bytes == 12 << 20
    assert memory.write_buffers.get_buffer_size() == 2 << 20


@pytest.mark.parametrize(("options", "is_refused"), [
    ({"number-to-merge": "2"}, True),
    ({"number-to-merge": "3", "count": "3"}, True),
    ({"number-to-merge": "3", "count": "4"}, False),
    ({"number-to-merge": "1"}, False),
])  # fmt: skip
def test_more_write_buffers_cannot_be_merged_than_there_are(options, is_refused):
    """RocksDB would silently merge fewer."""
    options = {f"state.backend.rocksdb.writebuffer.{name}": of for name, of in options.items()}
    if is_refused:
        with pytest.raises(ConfigurationError, match="since one is being filled"):
            check_options(options)
    else:
        check_options(options)


def test_write_buffers_of_predefined_options_can_be_merged():
    high_mem = {"state.backend.rocksdb.predefined-options": "SPINNING_DISK_OPTIMIZED_HIGH_MEM"}
    check_options({**high_mem, "state.backend.rocksdb.writebuffer.number-to-merge": "3"})


IDLE = [
    ({}, "state.backend.rocksdb.thread.num", "4", "apply only with state.backend.type rocksdb"),
    ({"state.backend.type": "rocksdb"}, "state.backend.rocksdb.block.cache-size", "1 mb",
     "with state.backend.rocksdb.memory.managed the databases of a slot share their block cache"),
    ({"state.backend.type": "rocksdb", "state.backend.rocksdb.memory.managed": "false"},
     "state.backend.rocksdb.memory.fixed-per-slot", "8 mb", "share no memory"),
    ({"state.backend.type": "rocksdb"}, "state.backend.rocksdb.block.metadata-blocksize", "8 kb",
     "indexes have parts only with state.backend.rocksdb.memory.partitioned-index-filters"),
    ({"state.backend.type": "rocksdb", "state.backend.rocksdb.use-bloom-filter": "false"},
     "state.backend.rocksdb.bloom-filter.bits-per-key", "12",
     "state.backend.rocksdb.use-bloom-filter is false"),
    ({}, "execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION",
     "the driver keeps checkpoints in its memory"),
    ({"execution.checkpointing.storage": "jobmanager"}, "execution.checkpointing.dir", "/here",
     "the driver keeps checkpoints in its memory"),
    ({}, "state.backend.local-recovery", "true", "the driver keeps checkpoints in its memory"),
    ({}, "execution.checkpointing.aligned-checkpoint-timeout", "1 s", "barriers overtake data"),
    ({}, "execution.checkpointing.unaligned.forced", "true", "barriers overtake data"),
    ({}, "penstock.checkpointing.barrier-buffer.max-size", "7", "no data waits behind barriers"),
    ({}, "execution.checkpointing.min-pause", "1 s", "no checkpoint follows another"),
    ({}, "execution.savepoint-restore-mode", "CLAIM", "the job starts without state"),
    ({}, "restart-strategy.fixed-delay.attempts", "7", "restart-strategy.type is none"),
    ({"execution.checkpointing.interval": "1 s"}, "restart-strategy.fixed-delay.attempts", "7",
     "restart-strategy.type is exponential-delay"),
    ({"restart-strategy": "fixed-delay"}, "restart-strategy.failure-rate.delay", "7 s",
     "restart-strategy.type is fixed-delay"),
]  # fmt: skip


@pytest.mark.parametrize(("others", "key", "text", "why"), IDLE)
def test_options_that_others_disable_are_named(caplog, others, key, text, why):
    with caplog.at_level(logging.WARNING):
        warn_of_idle_options({**others, key: text}, "local")
    (record,) = caplog.records
    assert why in record.getMessage()
    assert record.getMessage().endswith(f"; without effect: {key}")


@pytest.mark.parametrize("options", [
    {"state.backend.type": "rocksdb", "state.backend.rocksdb.memory.fixed-per-slot": "8 mb"},
    {"state.backend.type": "rocksdb", "state.backend.rocksdb.block.metadata-blocksize": "8 kb",
     "state.backend.rocksdb.memory.partitioned-index-filters": "true"},
    {"execution.checkpointing.dir": "/here", "state.backend.local-recovery": "true",
     "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION"},
    {"execution.checkpointing.interval": "1 s", "execution.checkpointing.min-pause": "1 s"},
    {"execution.checkpointing.interval": "1 s",
     "restart-strategy.exponential-delay.initial-backoff": "2 s"},
    {"restart-strategy.type": "failure-rate", "restart-strategy.failure-rate.delay": "2 s"},
    {"restart-strategy.fixed-delay.attempts": "1"},
])  # fmt: skip
def test_effective_options_are_not_named(caplog, options):
    with caplog.at_level(logging.WARNING):
        warn_of_idle_options(options, "local")
    assert caplog.records == []


@pytest.mark.parametrize("key", [
    "execution.checkpointing.dir", "execution.checkpointing.savepoint-dir",
])  # fmt: skip
def test_folders_are_those_of_the_program(key, tmp_path, monkeypatch):
    """Workers have other working directories; URLs need no conversion."""
    monkeypatch.chdir(tmp_path)
    for text, folder in (("here/there", f"{tmp_path}/here/there"), ("s3://b/c", "s3://b/c")):
        configuration = Configuration().set_string(key, text)
        env = StreamExecutionEnvironment.get_execution_environment(configuration)
        env.from_collection([1]).print()
        _, configuration = env._job.job_graph("job", 1, 100)
        assert configuration.get_string(key, "") == folder


@pytest.mark.parametrize("key", [
    "execution.checkpointing.dir", "execution.checkpointing.savepoint-dir",
])  # fmt: skip
def test_a_folder_of_an_unknown_scheme_is_refused_before_the_start(key):
    configuration = Configuration().set_string("execution.target", "local")
    configuration.set_string(key, "gopher://host/folder")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.from_collection([1]).print()
    with pytest.raises(ConfigurationError, match="gopher"):
        env.execute()


@pytest.mark.parametrize(("options", "directory"), [
    ({"dir": "/checkpoints"}, "/checkpoints"),
    ({"dir": "/checkpoints", "storage": "filesystem"}, "/checkpoints"),
    ({"dir": "/checkpoints", "storage": "jobmanager"}, None),
    ({"storage": "jobmanager"}, None),
    ({}, None),
])  # fmt: skip
def test_the_directory_of_checkpoints(options, directory):
    """In files if there is a directory, unless the driver is configured to hold them: None."""
    options = {f"execution.checkpointing.{name}": value for name, value in options.items()}
    assert configured_directory(options) == directory


def test_files_of_checkpoints_need_a_directory():
    with pytest.raises(ConfigurationError, match=r"filesystem: set execution\.checkpointing\.dir"):
        check_options({"execution.checkpointing.storage": "filesystem"})


@pytest.mark.parametrize(("backup", "from_local", "is_kept"), [
    (None, None, False),
    ("true", None, True),
    ("true", "false", True),
    (None, "true", True),
    ("false", "true", False),
])  # fmt: skip
def test_the_options_that_keep_copies_of_checkpoints(tmp_path, backup, from_local, is_kept):
    """`local-backup.enabled` decides; without it, `execution.state-recovery.from-local` does."""
    options = {"execution.checkpointing.local-backup.dirs": str(tmp_path)}
    if backup is not None:
        options["execution.checkpointing.local-backup.enabled"] = backup
    if from_local is not None:
        options["execution.state-recovery.from-local"] = from_local
    resources = SlotResources(LaunchSpec(("127.0.0.1", 1), "", "executor", 1))
    task = SimpleNamespace(
        job_id=b"j", allocation_id=b"a", vertex_id=b"v", subtask=0, configuration=options
    )
    assert set(vars(task)) <= set(TaskDeploymentDescriptor.__struct_fields__)
    try:
        assert (resources.local_state(task) is not None) is is_kept
        assert bool(list(tmp_path.iterdir())) is is_kept
    finally:
        resources.close()


@pytest.mark.parametrize("forced", ["true", "false"])
def test_forced_unaligned_checkpoints_are_not_refused(forced):
    """Behind a custom partitioner, with which they are rejected unless forced."""
    options = {
        "execution.checkpointing.interval": "1 s",
        "execution.checkpointing.unaligned.enabled": "true",
        "execution.checkpointing.unaligned.forced": forced,
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    stream = env.from_collection([(1, 1)], Types.TUPLE([Types.INT(), Types.INT()]))
    stream.partition_custom(lambda key, count: key % count, lambda value: value[0]).print()
    if forced == "true":
        assert env.get_execution_plan()
    else:
        with pytest.raises(InvalidProgramError, match=r"unaligned\.forced"):
            env.get_execution_plan()


@pytest.mark.parametrize(
    ("text", "folders"),
    [
        ("/a", ("/a",)),
        ("file:///a", ("/a",)),
        ("file:/a", ("/a",)),
        ("file://host/a", ("/a",)),
        ("file:///a:/b", ("/a", "/b")),
        ("/a:file:///b", ("/a", "/b")),
        ("file:///a, FILE:///b|/c", ("/a", "/b", "/c")),
    ],
)
def test_folders_of_databases_may_be_urls_of_files(text, folders):
    option = {rocksdb.LOCAL_FOLDERS.key: text}
    assert rocksdb.LOCAL_FOLDERS.read(option) == folders


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("db", "'db' is relative"),
        ("/a:db", "'db' is relative"),
        ("hdfs://x/y", "has the scheme 'hdfs'"),
        ("s3://bucket/x", "has the scheme 's3'"),
        (" , ", "must be folders"),
    ],
)
def test_folders_of_databases_are_absolute_and_local(text, told):
    with pytest.raises(ConfigurationError, match=told):
        rocksdb.LOCAL_FOLDERS.read({rocksdb.LOCAL_FOLDERS.key: text})


def test_db_storage_paths_are_those_of_pyflink():
    backend = EmbeddedRocksDBStateBackend()
    backend.set_db_storage_paths("file:///a", "/b")
    assert backend.get_db_storage_paths() == ["/a", "/b"]
    backend.set_db_storage_paths("file://host/a/", "/b/")
    assert backend.get_db_storage_paths() == ["/a", "/b"]
    configuration = Configuration()
    backend.write_to(configuration)
    assert rocksdb.LOCAL_FOLDERS.read(configuration) == ("/a", "/b")
    for refused in ("db", "hdfs://x/y", "", "/a:/b", "/a,b"):
        with pytest.raises(InvalidProgramError, match="set_db_storage_paths"):
            backend.set_db_storage_paths(refused)
    assert backend.get_db_storage_paths() == ["/a", "/b"]


def test_the_period_of_compaction_is_a_duration_or_a_time():
    def period(given):
        builder = StateTtlConfig.new_builder(Time.seconds(1))
        config = builder.cleanup_in_rocksdb_compact_filter(5, given).build()
        strategy = config.get_cleanup_strategies().get_rocksdb_compact_filter_cleanup_strategy()
        return strategy.get_periodic_compaction_time()

    assert period(Duration.of_seconds(3)) == period(Time.seconds(3)) == Time.seconds(3)
    assert period(None) == Time.days(30)
    with pytest.raises(InvalidProgramError, match="a Duration or a Time, got 5"):
        period(5)
