"""ExecutionConfig: settings of one job's execution, a typed view of its Configuration."""

from __future__ import annotations

from typing import Any, Final, NoReturn

from penstock.common.configuration import Configuration
from penstock.common.jvm import requires_jvm
from penstock.common.time import Duration
from penstock.errors import ConfigurationError

__all__ = [
    "ExecutionConfig",
]

_PARALLELISM: Final = "parallelism.default"
_MAX_PARALLELISM: Final = "pipeline.max-parallelism"
_MAX_PARALLELISM_BOUND: Final = 1 << 15
_WATERMARK_INTERVAL: Final = "pipeline.auto-watermark-interval"
_LATENCY_INTERVAL: Final = "metrics.latency.interval"
_CANCELLATION_INTERVAL: Final = "task.cancellation.interval"
_CANCELLATION_TIMEOUT: Final = "task.cancellation.timeout"
_OBJECT_REUSE: Final = "pipeline.object-reuse"
_CLOSURE_CLEANER: Final = "pipeline.closure-cleaner-level"
_AUTO_UIDS: Final = "pipeline.auto-generate-uids"
_SNAPSHOT_COMPRESSION: Final = "execution.checkpointing.snapshot-compression"
_JOB_PARAMETERS: Final = "pipeline.global-job-parameters"
_DECLARE_TYPES: Final = "declare types with penstock.common.Types"


class ExecutionConfig:
    """Settings of a job's execution.

    Every setting lives in the environment's `Configuration`, so that the two cannot disagree.
    """

    PARALLELISM_DEFAULT = -1
    PARALLELISM_UNKNOWN = -2

    def __init__(self, configuration: Configuration | None = None) -> None:
        """Makes a view of a configuration, of a new one when None."""
        self._configuration = Configuration() if configuration is None else configuration

    def enable_closure_cleaner(self) -> ExecutionConfig:
        """Kept for programs that call it: functions always are pickled with what they use."""
        self._configuration.set_string(_CLOSURE_CLEANER, "RECURSIVE")
        return self

    def disable_closure_cleaner(self) -> ExecutionConfig:
        """Kept for programs that call it; see `enable_closure_cleaner`."""
        self._configuration.set_string(_CLOSURE_CLEANER, "NONE")
        return self

    def is_closure_cleaner_enabled(self) -> bool:
        """Whether it is set; it has no effect."""
        return self._configuration.get_string(_CLOSURE_CLEANER, "RECURSIVE") != "NONE"

    def set_auto_watermark_interval(self, interval: int) -> ExecutionConfig:
        """Sets how often watermarks are generated, in ms; 0 turns it off.

        Raises:
            ConfigurationError: The interval is negative.
        """
        if interval < 0:
            raise ConfigurationError(f"the watermark interval cannot be negative: {interval}")
        return self._set_millis(_WATERMARK_INTERVAL, interval)

    def get_auto_watermark_interval(self) -> int:
        """How often watermarks are generated, in ms."""
        return self._millis(_WATERMARK_INTERVAL, 200)

    def set_latency_tracking_interval(self, interval: int) -> ExecutionConfig:
        """Sets how often sources send latency markers, in ms; 0 turns it off."""
        return self._set_millis(_LATENCY_INTERVAL, interval)

    def get_latency_tracking_interval(self) -> int:
        """How often sources send latency markers, in ms."""
        return self._millis(_LATENCY_INTERVAL, 0)

    def get_parallelism(self) -> int:
        """The parallelism of operators without one of their own."""
        return self._configuration.get_integer(_PARALLELISM, 1)

    def set_parallelism(self, parallelism: int) -> ExecutionConfig:
        """Sets the parallelism of operators without one of their own.

        Raises:
            ConfigurationError: It is neither positive nor `PARALLELISM_DEFAULT`.
        """
        if parallelism == self.PARALLELISM_UNKNOWN:
            return self
        if parallelism == self.PARALLELISM_DEFAULT:
            self._configuration.remove_config(_PARALLELISM)
            return self
        if parallelism < 1:
            raise ConfigurationError(f"a parallelism must be at least 1, got {parallelism}")
        self._configuration.set_integer(_PARALLELISM, parallelism)
        return self

    def get_max_parallelism(self) -> int:
        """The number of key groups of operators without one of their own; -1 derives it."""
        return self._configuration.get_integer(_MAX_PARALLELISM, -1)

    def set_max_parallelism(self, max_parallelism: int) -> ExecutionConfig:
        """Sets the number of key groups of operators without one of their own.

        Raises:
            ConfigurationError: It is not within 1 and 32768.
        """
        if not 1 <= max_parallelism <= _MAX_PARALLELISM_BOUND:
            raise ConfigurationError(
                "a max parallelism must be between 1 and "
                f"{_MAX_PARALLELISM_BOUND}, got {max_parallelism}"
            )
        self._configuration.set_integer(_MAX_PARALLELISM, max_parallelism)
        return self

    def get_task_cancellation_interval(self) -> int:
        """The time between two attempts to interrupt a task, in ms."""
        return self._millis(_CANCELLATION_INTERVAL, 30_000)

    def set_task_cancellation_interval(self, interval: int) -> ExecutionConfig:
        """Sets the time between two attempts to interrupt a task, in ms."""
        return self._set_millis(_CANCELLATION_INTERVAL, interval)

    def get_task_cancellation_timeout(self) -> int:
        """How long a task may take to cancel before its process is ended, in ms."""
        return self._millis(_CANCELLATION_TIMEOUT, 180_000)

    def set_task_cancellation_timeout(self, timeout: int) -> ExecutionConfig:
        """Sets how long a task may take to cancel, in ms; 0 waits for ever.

        Raises:
            ConfigurationError: The timeout is negative.
        """
        if timeout < 0:
            raise ConfigurationError(f"a timeout cannot be negative: {timeout}")
        return self._set_millis(_CANCELLATION_TIMEOUT, timeout)

    def enable_force_kryo(self) -> NoReturn:
        """Refused: serializers of Java objects, gone from Flink 2 as well."""
        requires_jvm("ExecutionConfig.enable_force_kryo", _DECLARE_TYPES)

    def disable_force_kryo(self) -> NoReturn:
        """Refused: serializers of Java objects, gone from Flink 2 as well."""
        requires_jvm("ExecutionConfig.disable_force_kryo", _DECLARE_TYPES)

    def is_force_kryo_enabled(self) -> NoReturn:
        """Refused: serializers of Java objects, gone from Flink 2 as well."""
        requires_jvm("ExecutionConfig.is_force_kryo_enabled", _DECLARE_TYPES)

    def enable_force_avro(self) -> NoReturn:
        """Refused: serializers of Java objects, gone from Flink 2 as well."""
        requires_jvm("ExecutionConfig.enable_force_avro", _DECLARE_TYPES)

    def disable_force_avro(self) -> NoReturn:
        """Refused: serializers of Java objects, gone from Flink 2 as well."""
        requires_jvm("ExecutionConfig.disable_force_avro", _DECLARE_TYPES)

    def is_force_avro_enabled(self) -> NoReturn:
        """Refused: serializers of Java objects, gone from Flink 2 as well."""
        requires_jvm("ExecutionConfig.is_force_avro_enabled", _DECLARE_TYPES)

    def enable_generic_types(self) -> NoReturn:
        """Refused: about serializers of Java objects, gone from Flink 2 as well."""
        requires_jvm("ExecutionConfig.enable_generic_types", _DECLARE_TYPES)

    def disable_generic_types(self) -> NoReturn:
        """Refused: about serializers of Java objects, gone from Flink 2 as well."""
        requires_jvm("ExecutionConfig.disable_generic_types", _DECLARE_TYPES)

    def has_generic_types_disabled(self) -> NoReturn:
        """Refused: about serializers of Java objects, gone from Flink 2 as well."""
        requires_jvm("ExecutionConfig.has_generic_types_disabled", _DECLARE_TYPES)

    def enable_auto_generated_uids(self) -> ExecutionConfig:
        """Gives operators without uid an id made from the topology."""
        return self._set_flag(_AUTO_UIDS, True)

    def disable_auto_generated_uids(self) -> ExecutionConfig:
        """Asks that every operator has a uid of its own."""
        return self._set_flag(_AUTO_UIDS, False)

    def has_auto_generated_uids_enabled(self) -> bool:
        """Whether operators without uid get an id made from the topology."""
        return self._configuration.get_boolean(_AUTO_UIDS, True)

    def enable_object_reuse(self) -> ExecutionConfig:
        """Kept for programs that call it: chained operators always hand objects on uncopied."""
        return self._set_flag(_OBJECT_REUSE, True)

    def disable_object_reuse(self) -> ExecutionConfig:
        """Kept for programs that call it; see `enable_object_reuse`."""
        return self._set_flag(_OBJECT_REUSE, False)

    def is_object_reuse_enabled(self) -> bool:
        """Whether it is set; it has no effect."""
        return self._configuration.get_boolean(_OBJECT_REUSE, False)

    def get_global_job_parameters(self) -> dict[str, str]:
        """What functions may ask their runtime context for."""
        text = self._configuration.get_string(_JOB_PARAMETERS, "") or ""
        pairs = (_split_unquoted(pair, ":") for pair in _split_unquoted(text, ",") if pair)
        return {_unquote(key): _unquote(":".join(value)) for key, *value in pairs}

    def set_global_job_parameters(
        self, global_job_parameters_dict: dict[str, Any]
    ) -> ExecutionConfig:
        """Sets what functions may ask their runtime context for; values become text."""
        pairs = (f"{_quote(k)}:{_quote(str(v))}" for k, v in global_job_parameters_dict.items())
        self._configuration.set_string(_JOB_PARAMETERS, ",".join(pairs))
        return self

    def get_default_kryo_serializer_classes(self) -> NoReturn:
        """Refused: serializers of Java objects, gone from Flink 2 as well."""
        requires_jvm("ExecutionConfig.get_default_kryo_serializer_classes", _DECLARE_TYPES)

    def get_registered_kryo_types(self) -> NoReturn:
        """Refused: serializers of Java objects, gone from Flink 2 as well."""
        requires_jvm("ExecutionConfig.get_registered_kryo_types", _DECLARE_TYPES)

    def get_registered_pojo_types(self) -> NoReturn:
        """Refused: serializers of Java objects, gone from Flink 2 as well."""
        requires_jvm("ExecutionConfig.get_registered_pojo_types", _DECLARE_TYPES)

    def is_use_snapshot_compression(self) -> bool:
        """Whether snapshots of keyed state are compressed."""
        return self._configuration.get_boolean(_SNAPSHOT_COMPRESSION, False)

    def set_use_snapshot_compression(self, use_snapshot_compression: bool) -> ExecutionConfig:
        """Sets whether snapshots of keyed state are compressed."""
        return self._set_flag(_SNAPSHOT_COMPRESSION, use_snapshot_compression)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExecutionConfig) and self._configuration == other._configuration

    def __hash__(self) -> int:
        return hash(self._configuration)

    def _millis(self, key: str, default_ms: int) -> int:
        text = self._configuration.get_string(key, None)
        return default_ms if text is None else Duration.parse(text).to_millis()

    def _set_millis(self, key: str, millis: int) -> ExecutionConfig:
        self._configuration.set_string(key, f"{millis} ms")
        return self

    def _set_flag(self, key: str, value: bool) -> ExecutionConfig:
        self._configuration.set_boolean(key, value)
        return self


# A map in a configuration value is `key:value,key:value`; a part with a special character is
# quoted, and a quote within quotes is doubled.
_SPECIAL = frozenset(":,'\"")


def _quote(text: str) -> str:
    if _SPECIAL.isdisjoint(text):
        return text
    return "'" + text.replace("'", "''") + "'"


def _unquote(text: str) -> str:
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    return text


def _split_unquoted(text: str, separator: str) -> list[str]:
    parts, start, quoted = [], 0, False
    for i, character in enumerate(text):
        if character == "'":
            quoted = not quoted
        elif character == separator and not quoted:
            parts.append(text[start:i])
            start = i + 1
    return [*parts, text[start:]]
