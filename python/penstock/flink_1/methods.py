"""Methods of the environment and its settings in PyFlink 1."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from penstock.common.input_dependency_constraint import InputDependencyConstraint
from penstock.common.options import checkpointing, state
from penstock.common.restart_strategy import RestartStrategies, RestartStrategyConfiguration
from penstock.datastream.checkpoint_storage import (
    CheckpointStorage,
    FileSystemCheckpointStorage,
    JobManagerCheckpointStorage,
)
from penstock.datastream.externalized_checkpoint_retention import ExternalizedCheckpointRetention
from penstock.datastream.file_path import normalized_path
from penstock.datastream.state_backend import EmbeddedRocksDBStateBackend, HashMapStateBackend
from penstock.errors import InvalidProgramError, WrongArgumentError
from penstock.flink_1 import say_once
from penstock.flink_1.checkpoints import ExternalizedCheckpointCleanup
from penstock.flink_1.execution_mode import ExecutionMode
from penstock.flink_1.state_backends import write_folder
from penstock.flink_1.time_characteristic import TimeCharacteristic

if TYPE_CHECKING:
    from collections.abc import Callable

_RESTARTS: Final = (
    "put the options restart-strategy.type and restart-strategy.<type>.* into the Configuration of "
    "get_execution_environment"
)
_RETENTION: Final = "use set_externalized_checkpoint_retention(ExternalizedCheckpointRetention.…)"
_FOLDER: Final = f"set the options {checkpointing.STORAGE.key} and {checkpointing.FOLDER.key}"
_BACKEND: Final = f"set the option {state.BACKEND.key}"
_TIME: Final = "leave it out: windows and watermark strategies say which time counts"
_JAVA: Final = "leave it out: it is about Java's serializers, and Types decide here"
_PLANNER: Final = "leave it out: there is one planner"
_LOGS: Final = "leave it out: the progress of jobs is in the log"
_DATA_SETS: Final = (
    "use set_runtime_mode(RuntimeExecutionMode.…): it is about the former DataSet API"
)


def _set_time_characteristic(env: Any, characteristic: TimeCharacteristic) -> None:
    given: Any = characteristic
    if not isinstance(given, TimeCharacteristic):
        raise WrongArgumentError(f"a TimeCharacteristic is needed, got {given!r}")
    if characteristic is TimeCharacteristic.IngestionTime:
        raise InvalidProgramError(
            "TimeCharacteristic.IngestionTime is a strategy here: call assign_timestamps_and_"
            "watermarks(WatermarkStrategy.for_ingestion_time()) right behind the source"
        )
    env._time_characteristic = characteristic
    processing = characteristic is TimeCharacteristic.ProcessingTime
    env.get_config().set_auto_watermark_interval(0 if processing else 200)


def _get_time_characteristic(env: Any) -> TimeCharacteristic:
    found: TimeCharacteristic = vars(env).get("_time_characteristic", TimeCharacteristic.EventTime)
    return found


def _set_restart_strategy(target: Any, restart_strategy: RestartStrategyConfiguration) -> Any:
    given: Any = restart_strategy
    if not isinstance(given, RestartStrategyConfiguration):
        raise WrongArgumentError(
            f"set_restart_strategy takes what RestartStrategies makes, got {given!r}"
        )
    restart_strategy.write_to(target._configuration)
    target._configuration._restart_strategy = restart_strategy
    return None if hasattr(target, "get_config") else target


def _get_restart_strategy(target: Any) -> RestartStrategyConfiguration:
    found: RestartStrategyConfiguration = vars(target._configuration).get(
        "_restart_strategy", RestartStrategies.fall_back_restart()
    )
    return found


def _get_state_backend(env: Any) -> Any:
    if state.BACKEND.read(env._configuration) == "rocksdb":
        return EmbeddedRocksDBStateBackend(checkpointing.INCREMENTAL.read(env._configuration))
    return HashMapStateBackend()


def _set_cleanup(config: Any, cleanup_mode: ExternalizedCheckpointCleanup) -> Any:
    given: Any = cleanup_mode
    if not isinstance(given, ExternalizedCheckpointCleanup | ExternalizedCheckpointRetention):
        raise WrongArgumentError(f"an ExternalizedCheckpointCleanup is needed, got {given!r}")
    return config.set_externalized_checkpoint_retention(ExternalizedCheckpointRetention[given.name])


def _get_cleanup(config: Any) -> ExternalizedCheckpointCleanup:
    return ExternalizedCheckpointCleanup[config.get_externalized_checkpoint_retention().name]


def _set_storage(config: Any, storage: CheckpointStorage) -> Any:
    if isinstance(storage, FileSystemCheckpointStorage):
        write_folder(config._configuration, storage.get_checkpoint_path())
    elif isinstance(storage, JobManagerCheckpointStorage):
        checkpointing.STORAGE.write(config._configuration, "jobmanager")
    else:
        raise WrongArgumentError(f"set_checkpoint_storage takes a CheckpointStorage: {storage!r}")
    return config


def _set_storage_folder(config: Any, checkpoint_path: str) -> Any:
    given: Any = checkpoint_path
    if not isinstance(given, str):
        raise WrongArgumentError(f"set_checkpoint_storage_dir takes a folder, got {given!r}")
    write_folder(config._configuration, normalized_path(checkpoint_path))
    return config


def _get_storage(config: Any) -> CheckpointStorage | None:
    folder = checkpointing.FOLDER.read(config._configuration)
    return None if folder is None else FileSystemCheckpointStorage(folder)


def _no_effect(target: Any, *args: Any) -> Any:  # noqa: ARG001
    return None if hasattr(target, "get_config") else target


def _answer(value: Any) -> Callable[..., Any]:
    return lambda target: value  # noqa: ARG005


_RESTART_METHODS: Final[dict[str, tuple[Callable[..., Any], str]]] = {
    "set_restart_strategy": (_set_restart_strategy, _RESTARTS),
    "get_restart_strategy": (_get_restart_strategy, _RESTARTS),
}
_JAVA_METHODS: Final[dict[str, tuple[Callable[..., Any], str]]] = dict.fromkeys(
    (
        *("add_default_kryo_serializer", "register_type", "register_type_with_kryo_serializer"),
        *("disable_auto_type_registration", "register_kryo_type", "register_pojo_type"),
    ),
    (_no_effect, _JAVA),
)

METHODS: Final[dict[str, dict[str, tuple[Callable[..., Any], str]]]] = {
    "StreamExecutionEnvironment": {
        **_RESTART_METHODS,
        **_JAVA_METHODS,
        "set_stream_time_characteristic": (_set_time_characteristic, _TIME),
        "get_stream_time_characteristic": (_get_time_characteristic, _TIME),
        "get_state_backend": (_get_state_backend, _BACKEND),
    },
    "ExecutionConfig": {
        **_RESTART_METHODS,
        **_JAVA_METHODS,
        "is_auto_type_registration_disabled": (_answer(False), _JAVA),
        "get_registered_types_with_kryo_serializer_classes": (_answer({}), _JAVA),
        "set_execution_mode": (_no_effect, _DATA_SETS),
        "get_execution_mode": (_answer(ExecutionMode.PIPELINED), _DATA_SETS),
        "set_default_input_dependency_constraint": (_no_effect, "leave it out"),
        "get_default_input_dependency_constraint": (
            _answer(InputDependencyConstraint.ANY),
            "leave it out",
        ),
        **dict.fromkeys(("disable_sysout_logging", "enable_sysout_logging"), (_no_effect, _LOGS)),
        "is_sysout_logging_enabled": (_answer(False), _LOGS),
    },
    "CheckpointConfig": {
        "enable_externalized_checkpoints": (_set_cleanup, _RETENTION),
        "set_externalized_checkpoint_cleanup": (_set_cleanup, _RETENTION),
        "get_externalized_checkpoint_cleanup": (_get_cleanup, _RETENTION),
        "set_checkpoint_storage": (_set_storage, _FOLDER),
        "set_checkpoint_storage_dir": (_set_storage_folder, _FOLDER),
        "get_checkpoint_storage": (_get_storage, _FOLDER),
        "set_prefer_checkpoint_for_recovery": (_no_effect, "leave it out"),
        "is_prefer_checkpoint_for_recovery": (_answer(False), "leave it out"),
    },
    "EnvironmentSettings.Builder": dict.fromkeys(
        ("use_any_planner", "use_blink_planner", "use_old_planner"), (_no_effect, _PLANNER)
    ),
}
"""The functions by class and name, and their replacements."""


def bound_method(target: Any, kind: str, name: str) -> Callable[..., Any]:
    """Return a method of Flink 1; its replacement is logged once.

    Args:
        target: The object that it is called on.
        kind: The class that had it.
        name: Its name.
    """
    methods = METHODS.get(kind)
    if methods is None:
        # A program without tables may lack the packages that they need.
        methods = import_module("penstock.flink_1.table_methods").METHODS
    function, instead = methods[name]
    say_once(f"{kind}.{name}", instead)
    return partial(function, target)
