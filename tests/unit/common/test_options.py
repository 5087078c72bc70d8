"""Options are declared once, read through their objects, and checked before a job starts."""

import ast
import gc
import logging
import re
from pathlib import Path

import pytest
from penstock.common import Configuration, Encoder
from penstock.common.options.check import check_options
from penstock.common.options.flink_keys import is_flink_key
from penstock.common.options.registry import SECTIONS, options_by_key, options_of
from penstock.common.options.table import options_pages
from penstock.common.options.value_types import FoldersType, FolderType
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSink
from penstock.errors import ConfigurationError

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = ROOT / "python" / "penstock"
#: The module that declares the options of tables, `table.*`.
TABLE_OPTIONS = PACKAGE / "table" / "options" / "table_options.py"
#: Hints at methods of Java name the options in their place, and calls such as env.configure().
HINTS = PACKAGE / "common" / "calls" / "missing_methods.py"
#: A module, an option of a format, and an option of tables that a message names.
NO_OPTIONS = {
    *("table.exceptions", "table.include", "table.exec.sink.not-null-enforcer"),
    # Modules of PyFlink 1, and what hints at methods write.
    *("table.descriptors", "table.sources", "table.sinks"),
    *("table.execute_insert", "table.explain"),
}
KEY = re.compile(r"[a-z$][\w$-]*(?:\.[\w-]+)+\.?")


def execute(options: dict[str, object]) -> None:
    configuration = Configuration.from_dict({"execution.target": "local", **options})
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.from_collection([1]).print()
    env.execute()


@pytest.fixture(scope="module")
def sources() -> dict[Path, ast.Module]:
    """Parse the modules that read options.

    Garbage collections, which would find nothing, would take most of the time.
    """
    gc.disable()
    try:
        return {
            path: ast.parse(path.read_text())
            for path in sorted(PACKAGE.rglob("*.py"))
            if PACKAGE / "common" / "options" not in path.parents or path.stem == "s3_settings"
        }
    finally:
        gc.enable()


@pytest.fixture
def no_cluster(monkeypatch):
    """Fail where a job is handed to a target."""

    def reached(_target):
        raise AssertionError("a target was asked to execute the job")

    monkeypatch.setattr("penstock.datastream.execution._executor", reached)


def test_each_key_is_declared_once():
    keys = [key for _, module in SECTIONS for option in options_of(module) for key in option.keys]
    assert sorted(keys) == sorted(set(keys))
    modules = {path.stem for path in (PACKAGE / "common" / "options").glob("*.py")}
    machinery = {
        "__init__", "check", "flink_keys", "idle", "option", "quoting", "refused", "registry",
        "s3_settings", "scope", "table", "value_types",
    }  # fmt: skip
    declaring = {module.__name__.rpartition(".")[2] for _, module in SECTIONS}
    assert modules == machinery | declaring


def test_defaults_are_values():
    for option in options_by_key().values():
        if option.default not in (None, ()):
            assert option.parse(option.value_type.text(option.default)) == option.default, option


def reads(tree: ast.AST) -> set[tuple[str, str]]:
    """Return the module and name of the options that a source reads."""
    modules, names, found = {}, {}, set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "penstock.common.options":
            modules |= {alias.asname or alias.name: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
            "penstock.common.options."
        ):
            module = str(node.module).rpartition(".")[2]
            names |= {alias.asname or alias.name: (module, alias.name) for alias in node.names}
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Attribute) and node.attr == "read"):
            continue
        match node.value:
            case ast.Name(id=name) if name in names:
                found.add(names[name])
            case ast.Attribute(value=ast.Name(id=module), attr=name) if module in modules:
                found.add((modules[module], name))
    return found


def test_no_option_is_declared_and_never_read(sources):
    read = set().union(*map(reads, sources.values()))
    unread = [
        f"{module.__name__.rpartition('.')[2]}.{name}"
        for _, module in SECTIONS
        for name, option in vars(module).items()
        if option in options_of(module)
        and not option.awaits
        and (module.__name__.rpartition(".")[2], name) not in read
    ]
    assert unread == []


def test_no_option_is_read_undeclared_and_messages_name_those_that_are(sources):
    """Outside the declarations no text is a key of an option, or contains one of Flink's keys."""
    found = []
    for path, tree in sources.items():
        if path in (TABLE_OPTIONS, HINTS):
            continue
        documentation = {
            id(node.value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        }
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Constant) and isinstance(node.value, str)):
                continue
            if id(node) in documentation:
                continue
            for key in KEY.findall(node.value):
                declared = key in options_by_key()
                prefix = key.endswith(".") and any(k.startswith(key) for k in options_by_key())
                foreign = is_flink_key(key) and not declared and key not in NO_OPTIONS
                if foreign or ((declared or prefix) and node.value == key):
                    found.append(f"{path.relative_to(ROOT)}:{node.lineno}: {key}")
    assert found == []


def test_native_messages_name_declared_options():
    files = [
        *(ROOT / "rust").glob("*/src/**/*.rs"),
        *(path for kind in ("pyx", "pxd", "h") for path in (ROOT / "native").rglob(f"*.{kind}")),
    ]
    assert files
    for path in files:
        for key in KEY.findall(path.read_text()):
            assert key in options_by_key() or not is_flink_key(key), (path, key)


def test_the_pages_of_options_are_current():
    """``python -m penstock.common.options.table docs`` writes these pages."""
    docs = ROOT / "docs"
    pages = options_pages()
    assert {path: (docs / path).read_text() for path in pages} == pages
    assert {f"options/{path.name}" for path in (docs / "options").iterdir()} <= set(pages)


@pytest.mark.parametrize(
    ("key", "nearest"),
    [
        ("security.ssl.internal.enable", "security.ssl.internal.enabled"),
        ("parallelism", "parallelism.default"),
        ("paralelism.default", "parallelism.default"),
        ("taskmanager.numberoftaskslots", "taskmanager.numberOfTaskSlots"),
        ("restart-strategy.fixed-delay.attempt", "restart-strategy.fixed-delay.attempts"),
        ("checkpointing.interval", "execution.checkpointing.interval"),
        ("pipeline.jar", "pipeline.jars"),
        ("penstock.flux-compensator", None),
    ],
)
def test_a_key_that_misspells_an_option_names_it(no_cluster, key, nearest):
    says = f"did you mean {nearest}" if nearest else "options.md"
    with pytest.raises(ConfigurationError, match=f"{re.escape(repr(key))}.*{re.escape(says)}"):
        execute({key: "true"})


def test_keys_of_the_program_are_let_be(no_cluster, caplog):
    """One warning names the unknown keys, with suggestions."""
    keys = ["input.path", "my.own.setting", "rest.ports.all", "shop", "sink.table", "state"]
    assert warnings_of(caplog, dict.fromkeys(keys, "x")) == [
        "options of neither penstock nor Flink, left to the program: input.path, my.own.setting, "
        "rest.ports.all (unless rest.bind-port is meant), shop, sink.table, state"
    ]


FOLDERS = [
    key
    for option in options_by_key().values()
    if isinstance(option.value_type, FolderType | FoldersType)
    for key in option.keys
]


def test_options_of_folders_are_known_as_such():
    named = re.compile(r"(dirs?|Dir|checkpointdir|base-path|(recovery|savepoint)\.path)$")
    assert sorted(set(FOLDERS)) == sorted(key for key in options_by_key() if named.search(key))


@pytest.mark.parametrize("text", ["", " "])
@pytest.mark.parametrize("key", sorted(set(FOLDERS)))
def test_an_empty_folder_is_refused(no_cluster, key, text):
    """An empty folder must mean neither the working directory nor an unset option."""
    with pytest.raises(ConfigurationError, match=rf"{re.escape(key)}: '{text}': must be .*folder"):
        execute({key: text})


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"io.tmp.dirs": "/no/such/folder"}, "io.tmp.dirs: there is no folder '/no/such/folder'"),
        ({"io.tmp.dirs": "/tmp,/no/such"}, "'/no/such'"),
        ({"state.backend.type": "forst"}, "state.backend.type: .*no forst state backend"),
        ({"state.backend.type": "sqlite"}, "state.backend.type: 'sqlite': must be hashmap"),
        ({"pipeline.max-parallelism": "32769"}, "pipeline.max-parallelism: .*1 to 32768"),
        ({"parallelism.default": 0}, "parallelism.default: '0': .*from 1"),
        ({"execution.runtime-mode": "fast"}, "execution.runtime-mode"),
        ({"execution.target": "mars"}, "execution.target: 'mars'"),
        ({"penstock.runtime": "java"}, "penstock.runtime: 'java'"),
        ({"heartbeat.interval": "2 s", "heartbeat.timeout": "1 s"}, "must be shorter"),
        ({"security.ssl.internal.enabled": "yes"}, "must be true or false"),
        ({"taskmanager.memory.segment-size": "32 KiB"}, "memory size"),
        ({"taskmanager.network.compression.codec": "ZSTD"}, "no zstd compression"),
        ({"jobmanager.execution.failover-strategy": "regional"}, "region or full"),
        ({"restart-strategy.exponential-delay.max-backoff": "1 ms"}, "must not be below"),
        ({"execution.checkpointing.interval": "9 ms"}, "at least 10 ms"),
        ({"execution.state-recovery.claim-mode": "LEGACY"}, "NO_CLAIM or CLAIM"),
        ({"execution.savepoint-restore-mode": "mine"}, "must be NO_CLAIM or CLAIM"),
        (
            {"execution.checkpointing.interval-during-backlog": "1 min"},
            "no source reports that it processes a backlog",
        ),
        (
            {
                "execution.checkpointing.unaligned": "true",
                "execution.checkpointing.max-concurrent-checkpoints": "2",
            },
            "max-concurrent-checkpoints is 2, but with .*unaligned.enabled one",
        ),
        (
            {
                "execution.checkpointing.unaligned": "true",
                "penstock.checkpointing.barrier-buffer": "DISK",
            },
            "barrier-buffer is DISK, but no data waits",
        ),
        (
            {
                "execution.checkpointing.mode": "AT_LEAST_ONCE",
                "penstock.checkpointing.barrier-buffer": "MEMORY",
            },
            "barrier-buffer is MEMORY, but no data waits",
        ),
        (
            {"execution.checkpointing.unaligned.max-subtasks-per-channel-state-file": "3"},
            "its own file",
        ),
        (
            {
                "taskmanager.network.memory.buffer-debloat.enabled": "true",
                "taskmanager.memory.segment-size": "128",
            },
            "min-segment-size .*256 bytes",
        ),
    ],
)
def test_values_are_checked_before_anything_starts(no_cluster, options, says):
    with pytest.raises(ConfigurationError, match=says):
        execute(options)


def test_the_environment_variable_names_a_known_target(no_cluster, monkeypatch):
    monkeypatch.setenv("PENSTOCK_EXECUTION_TARGET", "mars")
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection([1]).print()
    with pytest.raises(ConfigurationError, match="PENSTOCK_EXECUTION_TARGET: 'mars'"):
        env.execute()


def warnings_of(caplog, options) -> list[str]:
    with caplog.at_level(logging.WARNING), pytest.raises(AssertionError, match="a target was"):
        execute(options)
    return [record.getMessage() for record in caplog.records]


def test_options_of_flink_without_meaning_are_listed_in_one_warning(no_cluster, caplog):
    keys = {
        "taskmanager.memory.process.size": "1 gb",
        "python.fn-execution.bundle.size": "1",
        "pekko.lookup.timeout": "1 s",
        "metrics.reporter.mine.factory.class": "x",
        "yarn.application.queue": "q",
        "state.backend.rocksdb.log.level": "INFO_LEVEL",
    }
    assert warnings_of(caplog, keys) == [
        f"options of Flink that have no effect in penstock: {', '.join(sorted(keys))}"
    ]


def test_a_log_in_files_has_a_place(no_cluster):
    options = {"state.changelog.enabled": "true", "state.changelog.storage": "filesystem"}
    with pytest.raises(
        ConfigurationError,
        match=r"^state\.changelog\.storage is filesystem: set state\.changelog\.dstl",
    ):
        execute(options)
    with pytest.raises(AssertionError, match="a target was"):
        execute({**options, "dstl.dfs.base-path": "/somewhere"})


@pytest.mark.parametrize(
    "key",
    [
        "dstl.dfs.preemptive-persist-threshold",
        "state.changelog.dstl.dfs.preemptive-persist-threshold",
        "dstl.dfs.batch.persist-delay",
        "state.changelog.dstl.dfs.upload.timeout",
        "dstl.dfs.upload.num-threads",
    ],
)
def test_a_log_that_is_to_be_written_ahead_is_refused(no_cluster, key):
    with pytest.raises(ConfigurationError, match=rf"^{key} has no effect: each task writes its"):
        execute({"state.changelog.enabled": "true", key: "1"})


@pytest.mark.parametrize(
    ("options", "warning"),
    [
        (
            {"state.changelog.storage": "filesystem", "state.changelog.max-failures-allowed": "1"},
            "changes are logged only with state.changelog.enabled; without effect: "
            "state.changelog.storage, state.changelog.max-failures-allowed",
        ),
        (
            {
                "state.changelog.enabled": "true",
                "execution.checkpointing.incremental": "true",
            },
            "with state.changelog.enabled checkpoints log changes; without effect: "
            "execution.checkpointing.incremental",
        ),
        (
            {"state.changelog.enabled": "true", "dstl.dfs.base-path": "/somewhere"},
            "state.changelog.storage is memory; without effect: dstl.dfs.base-path",
        ),
        (
            {
                "state.changelog.enabled": "true",
                "state.changelog.periodic-materialize.enabled": "false",
                "state.changelog.periodic-materialize.interval": "1 s",
            },
            "state.changelog.periodic-materialize.enabled is false; without effect: "
            "state.changelog.periodic-materialize.interval",
        ),
        (
            {
                "state.changelog.enabled": "true",
                "dstl.dfs.upload.retry-policy": "none",
                "dstl.dfs.upload.max-attempts": "7",
            },
            "state.changelog.dstl.dfs.upload.retry-policy is none; without effect: "
            "dstl.dfs.upload.max-attempts",
        ),
        (
            {"dstl.dfs.preemptive-persist-threshold": "1 mb"},
            "options of Flink that have no effect in penstock: "
            "dstl.dfs.preemptive-persist-threshold",
        ),
    ],
)
def test_idle_options_of_the_log_are_named(no_cluster, caplog, options, warning):
    assert warning in warnings_of(caplog, options)


def test_unaligned_checkpoints_are_exactly_once(no_cluster, caplog):
    """As in Flink: with AT_LEAST_ONCE the setting is ignored, and a warning says so."""
    options = {
        "execution.checkpointing.interval": "1 s",
        "execution.checkpointing.mode": "AT_LEAST_ONCE",
        "execution.checkpointing.max-concurrent-checkpoints": "2",
        "execution.checkpointing.unaligned.enabled": "true",
    }
    assert warnings_of(caplog, options) == [
        "barriers overtake data only with execution.checkpointing.mode EXACTLY_ONCE; "
        "without effect: execution.checkpointing.unaligned.enabled"
    ]


@pytest.mark.parametrize("interval", [None, "1 s"])
def test_a_sink_that_nothing_would_make_commit_is_named(no_cluster, caplog, tmp_path, interval):
    env = StreamExecutionEnvironment.get_execution_environment()
    if interval is not None:
        env.configure_option("execution.checkpointing.interval", interval)
    sink = FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder()).build()
    env.socket_text_stream("localhost", 1).sink_to(sink).name("files")
    with caplog.at_level(logging.WARNING), pytest.raises(AssertionError, match="a target was"):
        env.execute()
    warned = [record.getMessage() for record in caplog.records]
    if interval is not None:
        assert warned == []
    else:
        assert len(warned) == 1
        assert warned[0].endswith(
            "or at the end of their input, which never ends; without effect: 'files'"
        )


def test_a_sink_of_finite_input_commits_at_its_end(no_cluster, caplog, tmp_path):
    env = StreamExecutionEnvironment.get_execution_environment()
    sink = FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder()).build()
    env.from_collection([1]).sink_to(sink)
    with caplog.at_level(logging.WARNING), pytest.raises(AssertionError, match="a target was"):
        env.execute()
    assert caplog.records == []


def test_a_wrong_option_can_be_mended(no_cluster):
    """Objects that were already built exist until they are handed over."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection([1]).print()
    env.get_configuration().set_string("heartbeat.interval", "soon")
    with pytest.raises(ConfigurationError, match=r"heartbeat\.interval"):
        env.execute()
    env.configure_option("heartbeat.interval", "1 s")
    with pytest.raises(AssertionError, match="a target was"):
        env.execute()


def test_a_job_without_a_name_has_the_configured_one(monkeypatch):
    names = []

    class Noted(Exception):
        pass

    def note(job_graph, *_):
        names.append(job_graph.name)
        raise Noted

    monkeypatch.setattr("penstock.datastream.environment_execution.execute_job", note)
    env = StreamExecutionEnvironment.get_execution_environment()
    for configured, given in ((None, None), ("mine", None), ("mine", "yours")):
        if configured:
            env.configure_option("pipeline.name", configured)
        stream = env.from_collection([1])
        with pytest.raises(Noted):
            stream.execute_and_collect(given)
        stream.print()
        with pytest.raises(Noted):
            env.execute(given)
    assert names == ["Flink Streaming Job"] * 2 + ["mine"] * 2 + ["yours"] * 2


def test_options_of_spark_are_for_spark(no_cluster, caplog):
    assert warnings_of(caplog, {"spark.executor.cores": "2"}) == [
        "options of Spark without effect on target local: spark.executor.cores"
    ]


def test_options_of_penstock_do_not_warn(no_cluster, caplog):
    assert warnings_of(caplog, {"pipeline.global-job-parameters": "a:b"}) == []


def test_a_configuration_of_its_own_takes_any_key():
    configuration = Configuration()
    configuration.set_string("my.own.setting", "x").set_integer("security.ssl.internal.enable", 1)
    assert configuration.get_string("my.own.setting", None) == "x"


@pytest.mark.parametrize("value", ["null", "[1]", "{}"])
def test_the_process_configuration_holds_plain_values(monkeypatch, value):
    monkeypatch.setenv("PENSTOCK_CONFIGURATION", f'{{"parallelism.default": {value}}}')
    with pytest.raises(ConfigurationError, match=r"parallelism\.default"):
        StreamExecutionEnvironment.get_execution_environment()


def test_of_several_unknown_keys_the_first_is_named():
    keys = [f"penstock.{number}" for number in range(20)]
    with pytest.raises(ConfigurationError, match=r"there is no option 'penstock\.0'"):
        check_options(dict.fromkeys(keys, "x"))
