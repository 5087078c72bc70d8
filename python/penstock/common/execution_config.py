"""ExecutionConfig: settings of one job's execution, a typed view of its Configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NoReturn

from penstock.common.calls.argument_kinds import checks_arguments
from penstock.common.calls.jvm import requires_jvm
from penstock.common.calls.missing_methods import MissingMethods
from penstock.common.calls.names import checked_size
from penstock.common.configuration import Configuration
from penstock.common.options import checkpointing, cluster, pipeline
from penstock.errors import ConfigurationError, WrongArgumentError

if TYPE_CHECKING:
    from penstock.common.options.option import Option

__all__ = [
    "ExecutionConfig",
]

_DECLARE_TYPES: Final = "declare types with penstock.common.Types"


@checks_arguments
class ExecutionConfig(MissingMethods):
    """Settings of a job's execution.

    Every setting is stored in the environment's `Configuration`, so that the two cannot disagree.
    """

    PARALLELISM_DEFAULT = -1
    PARALLELISM_UNKNOWN = -2

    def __init__(self, configuration: Configuration | None = None) -> None:
        """Create a view of a configuration, of a new one if None."""
        self._configuration = Configuration() if configuration is None else configuration

    def enable_closure_cleaner(self) -> ExecutionConfig:
        """Accept the call for compatibility: functions are always pickled with what they use."""
        return self._write(pipeline.CLOSURE_CLEANER, "RECURSIVE")

    def disable_closure_cleaner(self) -> ExecutionConfig:
        """Accept the call for compatibility; see `enable_closure_cleaner`."""
        return self._write(pipeline.CLOSURE_CLEANER, "NONE")

    def is_closure_cleaner_enabled(self) -> bool:
        """Return whether it is set; it has no effect."""
        return pipeline.CLOSURE_CLEANER.read(self._configuration) != "NONE"

    def set_auto_watermark_interval(self, interval: int) -> ExecutionConfig:
        """Set the interval at which watermarks are generated, in ms; 0 turns this off.

        Raises:
            ConfigurationError: The interval is negative.
        """
        if interval < 0:
            raise ConfigurationError(f"the watermark interval cannot be negative: {interval}")
        return self._write(pipeline.AUTO_WATERMARK_INTERVAL, interval)

    def get_auto_watermark_interval(self) -> int:
        """Return the interval at which watermarks are generated, in ms."""
        return pipeline.AUTO_WATERMARK_INTERVAL.read(self._configuration)

    def set_latency_tracking_interval(self, interval: int) -> ExecutionConfig:
        """Set the interval at which sources send latency markers, in ms; 0 turns this off."""
        return self._write(pipeline.LATENCY_INTERVAL, interval)

    def get_latency_tracking_interval(self) -> int:
        """Return the interval at which sources send latency markers, in ms."""
        return pipeline.LATENCY_INTERVAL.read(self._configuration)

    def get_parallelism(self) -> int:
        """Return the parallelism of operators that set none themselves."""
        return pipeline.PARALLELISM.read(self._configuration)

    def set_parallelism(self, parallelism: int) -> ExecutionConfig:
        """Set the parallelism of operators that set none themselves.

        Raises:
            ConfigurationError: The argument is neither positive nor `PARALLELISM_DEFAULT`.
        """
        if parallelism == self.PARALLELISM_UNKNOWN:
            return self
        if parallelism == self.PARALLELISM_DEFAULT:
            pipeline.PARALLELISM.remove(self._configuration)
            return self
        if parallelism < 1:
            raise ConfigurationError(f"a parallelism must be at least 1, got {parallelism}")
        return self._write(pipeline.PARALLELISM, parallelism)

    def get_max_parallelism(self) -> int:
        """Return the number of key groups of operators that set none themselves; -1 derives it."""
        return pipeline.MAX_PARALLELISM.read(self._configuration) or -1

    def set_max_parallelism(self, max_parallelism: int) -> ExecutionConfig:
        """Set the number of key groups of operators that set none themselves.

        Raises:
            ConfigurationError: The argument is not between 1 and 32768.
        """
        if not 1 <= max_parallelism <= pipeline.MAX_PARALLELISM_BOUND:
            raise ConfigurationError(
                "a max parallelism must be between 1 and "
                f"{pipeline.MAX_PARALLELISM_BOUND}, got {max_parallelism}"
            )
        return self._write(pipeline.MAX_PARALLELISM, max_parallelism)

    def get_task_cancellation_interval(self) -> int:
        """Return the time between two attempts to interrupt a task, in ms."""
        return cluster.CANCELLATION_INTERVAL.read(self._configuration)

    def set_task_cancellation_interval(self, interval: int) -> ExecutionConfig:
        """Set the time between two attempts to interrupt a task, in ms."""
        return self._write(cluster.CANCELLATION_INTERVAL, interval)

    def get_task_cancellation_timeout(self) -> int:
        """Return the time a task has to cancel before its process is ended, in ms."""
        return cluster.CANCELLATION_TIMEOUT.read(self._configuration)

    def set_task_cancellation_timeout(self, timeout: int) -> ExecutionConfig:
        """Set the time that a task has to cancel, in ms; 0 for no limit.

        Raises:
            ConfigurationError: The timeout is negative.
        """
        if timeout < 0:
            raise ConfigurationError(f"a timeout cannot be negative: {timeout}")
        return self._write(cluster.CANCELLATION_TIMEOUT, timeout)

    def enable_force_kryo(self) -> NoReturn:
        """Reject the call: it concerns Java's serializers; Flink 2 has removed it, too."""
        requires_jvm("ExecutionConfig.enable_force_kryo", _DECLARE_TYPES)

    def disable_force_kryo(self) -> NoReturn:
        """Reject the call: it concerns Java's serializers; Flink 2 has removed it, too."""
        requires_jvm("ExecutionConfig.disable_force_kryo", _DECLARE_TYPES)

    def is_force_kryo_enabled(self) -> NoReturn:
        """Reject the call: it concerns Java's serializers; Flink 2 has removed it, too."""
        requires_jvm("ExecutionConfig.is_force_kryo_enabled", _DECLARE_TYPES)

    def enable_force_avro(self) -> NoReturn:
        """Reject the call: it concerns Java's serializers; Flink 2 has removed it, too."""
        requires_jvm("ExecutionConfig.enable_force_avro", _DECLARE_TYPES)

    def disable_force_avro(self) -> NoReturn:
        """Reject the call: it concerns Java's serializers; Flink 2 has removed it, too."""
        requires_jvm("ExecutionConfig.disable_force_avro", _DECLARE_TYPES)

    def is_force_avro_enabled(self) -> NoReturn:
        """Reject the call: it concerns Java's serializers; Flink 2 has removed it, too."""
        requires_jvm("ExecutionConfig.is_force_avro_enabled", _DECLARE_TYPES)

    def enable_generic_types(self) -> NoReturn:
        """Reject the call: it configures Java's serializers; Flink 2 has removed it, too."""
        requires_jvm("ExecutionConfig.enable_generic_types", _DECLARE_TYPES)

    def disable_generic_types(self) -> NoReturn:
        """Reject the call: it configures Java's serializers; Flink 2 has removed it, too."""
        requires_jvm("ExecutionConfig.disable_generic_types", _DECLARE_TYPES)

    def has_generic_types_disabled(self) -> NoReturn:
        """Reject the call: it configures Java's serializers; Flink 2 has removed it, too."""
        requires_jvm("ExecutionConfig.has_generic_types_disabled", _DECLARE_TYPES)

    def enable_auto_generated_uids(self) -> ExecutionConfig:
        """Derive the ids of operators without a uid from the topology."""
        return self._write(pipeline.AUTO_GENERATE_UIDS, True)

    def disable_auto_generated_uids(self) -> ExecutionConfig:
        """Require a uid for every operator."""
        return self._write(pipeline.AUTO_GENERATE_UIDS, False)

    def has_auto_generated_uids_enabled(self) -> bool:
        """Return whether the ids of operators without a uid are derived from the topology."""
        return pipeline.AUTO_GENERATE_UIDS.read(self._configuration)

    def enable_object_reuse(self) -> ExecutionConfig:
        """Pass objects on in a chain, and store them in state, without copies.

        If a function then mutates an object, all functions that hold the object see the change.
        """
        return self._write(pipeline.OBJECT_REUSE, True)

    def disable_object_reuse(self) -> ExecutionConfig:
        """Copy mutable values if another function could see a change; the default."""
        return self._write(pipeline.OBJECT_REUSE, False)

    def is_object_reuse_enabled(self) -> bool:
        """Return whether chained operators and states share objects."""
        return pipeline.OBJECT_REUSE.read(self._configuration)

    def get_global_job_parameters(self) -> dict[str, str]:
        """Return the parameters that functions read from their runtime context."""
        return dict(pipeline.JOB_PARAMETERS.read(self._configuration))

    def set_global_job_parameters(
        self, global_job_parameters_dict: dict[str, Any]
    ) -> ExecutionConfig:
        """Set the parameters that functions read from their runtime context; values become text.

        Raises:
            InvalidProgramError: The argument is not a dictionary, or a text in it cannot be sent.
        """
        given: object = global_job_parameters_dict
        if not isinstance(given, Mapping):
            raise WrongArgumentError(f"global job parameters must be a dictionary, got {given!r}")
        texts = {str(key): str(value) for key, value in global_job_parameters_dict.items()}
        for key, text in texts.items():
            checked_size("the name of a job parameter", key)
            checked_size(f"the job parameter {key!r}", text)
        return self._write(pipeline.JOB_PARAMETERS, texts)

    def get_default_kryo_serializer_classes(self) -> NoReturn:
        """Reject the call: it concerns Java's serializers; Flink 2 has removed it, too."""
        requires_jvm("ExecutionConfig.get_default_kryo_serializer_classes", _DECLARE_TYPES)

    def get_registered_kryo_types(self) -> NoReturn:
        """Reject the call: it concerns Java's serializers; Flink 2 has removed it, too."""
        requires_jvm("ExecutionConfig.get_registered_kryo_types", _DECLARE_TYPES)

    def get_registered_pojo_types(self) -> NoReturn:
        """Reject the call: it concerns Java's serializers; Flink 2 has removed it, too."""
        requires_jvm("ExecutionConfig.get_registered_pojo_types", _DECLARE_TYPES)

    def is_use_snapshot_compression(self) -> bool:
        """Return whether snapshots of keyed state are compressed."""
        return checkpointing.SNAPSHOT_COMPRESSION.read(self._configuration)

    def set_use_snapshot_compression(self, use_snapshot_compression: bool) -> ExecutionConfig:
        """Set whether snapshots of keyed state are compressed."""
        return self._write(checkpointing.SNAPSHOT_COMPRESSION, use_snapshot_compression)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExecutionConfig) and self._configuration == other._configuration

    def __hash__(self) -> int:
        return hash(self._configuration)

    def _write(self, option: Option[Any], value: object) -> ExecutionConfig:
        option.write(self._configuration, value)
        return self
