"""CheckpointConfig: the settings of checkpoints, a typed view of the Configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.common.calls.argument_kinds import checks_arguments
from penstock.common.calls.missing_methods import MissingMethods
from penstock.common.configuration import Configuration
from penstock.common.options import checkpointing as options
from penstock.common.time import Duration, Time
from penstock.datastream.checkpointing_mode import CheckpointingMode
from penstock.datastream.externalized_checkpoint_retention import ExternalizedCheckpointRetention
from penstock.errors import ConfigurationError
from penstock.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from penstock.common.options.option import Option

__all__ = [
    "CheckpointConfig",
]

_MIN_INTERVAL_MS = 10
_MAX_INTERVAL_MS = (1 << 63) - 1


@checks_arguments
class CheckpointConfig(MissingMethods):
    """Settings of checkpoints."""

    DEFAULT_TIMEOUT = options.TIMEOUT.default

    def __init__(self, configuration: Configuration | None = None) -> None:
        """Create a view of a configuration, of a new one if None."""
        self._configuration = Configuration() if configuration is None else configuration

    def is_checkpointing_enabled(self) -> bool:
        """Return whether checkpoints are taken."""
        return self.get_checkpoint_interval() > 0

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """Return the guarantee of checkpoints; AT_LEAST_ONCE while checkpoints are off."""
        if not self.is_checkpointing_enabled():
            return CheckpointingMode.AT_LEAST_ONCE
        return CheckpointingMode[options.MODE.read(self._configuration)]

    def set_checkpointing_mode(self, checkpointing_mode: CheckpointingMode) -> CheckpointConfig:
        """Set the guarantee of checkpoints."""
        return self._write(options.MODE, checkpointing_mode.name)

    def get_checkpoint_interval(self) -> int:
        """Return the time between checkpoints in ms; -1 if they are disabled."""
        return options.INTERVAL.read(self._configuration) or -1

    def set_checkpoint_interval(self, checkpoint_interval: int) -> CheckpointConfig:
        """Set the time between checkpoints in ms.

        Raises:
            ConfigurationError: The argument is less than 10 ms.
        """
        if not _MIN_INTERVAL_MS <= checkpoint_interval <= _MAX_INTERVAL_MS:
            raise ConfigurationError(
                f"a checkpoint interval must be at least {_MIN_INTERVAL_MS} ms, "
                f"got {checkpoint_interval}"
            )
        return self._write(options.INTERVAL, checkpoint_interval)

    def get_checkpoint_timeout(self) -> int:
        """Return the timeout of checkpoints in ms."""
        return options.TIMEOUT.read(self._configuration)

    def set_checkpoint_timeout(self, checkpoint_timeout: int) -> CheckpointConfig:
        """Set the timeout of checkpoints in ms.

        Raises:
            ConfigurationError: The argument is less than 10 ms.
        """
        if checkpoint_timeout < _MIN_INTERVAL_MS:
            raise ConfigurationError(
                f"a checkpoint timeout must be at least {_MIN_INTERVAL_MS} ms, "
                f"got {checkpoint_timeout}"
            )
        return self._write(options.TIMEOUT, checkpoint_timeout)

    def get_min_pause_between_checkpoints(self) -> int:
        """Return the least pause between two checkpoints, in ms."""
        return options.MIN_PAUSE.read(self._configuration)

    def set_min_pause_between_checkpoints(
        self, min_pause_between_checkpoints: int
    ) -> CheckpointConfig:
        """Set the shortest pause between two checkpoints, in ms.

        Raises:
            ConfigurationError: The argument is negative.
        """
        if min_pause_between_checkpoints < 0:
            raise ConfigurationError(
                f"a pause cannot be negative, got {min_pause_between_checkpoints} ms"
            )
        return self._write(options.MIN_PAUSE, min_pause_between_checkpoints)

    def get_max_concurrent_checkpoints(self) -> int:
        """Return the number of checkpoints that may run at the same time."""
        return options.MAX_CONCURRENT.read(self._configuration)

    def set_max_concurrent_checkpoints(self, max_concurrent_checkpoints: int) -> CheckpointConfig:
        """Set the number of checkpoints that may run at the same time.

        Raises:
            ConfigurationError: The argument is not positive.
        """
        if max_concurrent_checkpoints < 1:
            raise ConfigurationError(
                f"at least one checkpoint must be allowed, got {max_concurrent_checkpoints}"
            )
        return self._write(options.MAX_CONCURRENT, max_concurrent_checkpoints)

    def is_fail_on_checkpointing_errors(self) -> bool:
        """Return whether the first failed checkpoint makes the job fail."""
        return self.get_tolerable_checkpoint_failure_number() == 0

    def set_fail_on_checkpointing_errors(
        self, fail_on_checkpointing_errors: bool
    ) -> CheckpointConfig:
        """Set whether the first failed checkpoint fails the job; otherwise none does."""
        return self.set_tolerable_checkpoint_failure_number(
            0 if fail_on_checkpointing_errors else (1 << 31) - 1
        )

    def get_tolerable_checkpoint_failure_number(self) -> int:
        """Return the number of checkpoints in a row that may fail."""
        return options.TOLERABLE_FAILURES.read(self._configuration)

    def set_tolerable_checkpoint_failure_number(
        self, tolerable_checkpoint_failure_number: int
    ) -> CheckpointConfig:
        """Set the number of checkpoints in a row that may fail.

        Raises:
            ConfigurationError: The argument is negative.
        """
        if tolerable_checkpoint_failure_number < 0:
            raise ConfigurationError(
                f"a number of failures cannot be negative: {tolerable_checkpoint_failure_number}"
            )
        return self._write(options.TOLERABLE_FAILURES, tolerable_checkpoint_failure_number)

    def set_externalized_checkpoint_retention(
        self, retention_mode: ExternalizedCheckpointRetention
    ) -> CheckpointConfig:
        """Set the retention of checkpoints when the job is cancelled."""
        return self._write(options.RETENTION, retention_mode.name)

    def is_externalized_checkpoints_enabled(self) -> bool:
        """Return whether checkpoints may outlive the job."""
        none = ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS
        return self.get_externalized_checkpoint_retention() is not none

    def get_externalized_checkpoint_retention(self) -> ExternalizedCheckpointRetention:
        """Return the retention of checkpoints when the job is cancelled."""
        return ExternalizedCheckpointRetention[options.RETENTION.read(self._configuration)]

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Return whether checkpoints are unaligned, which needs EXACTLY_ONCE."""
        return (
            options.UNALIGNED.read(self._configuration)
            and self.get_checkpointing_mode() is CheckpointingMode.EXACTLY_ONCE
        )

    def enable_unaligned_checkpoints(self, enabled: bool = True) -> CheckpointConfig:
        """Let barriers overtake data in buffers; checkpoints store that data."""
        return self._write(options.UNALIGNED, enabled)

    def disable_unaligned_checkpoints(self) -> CheckpointConfig:
        """Let barriers wait for the data before them."""
        return self.enable_unaligned_checkpoints(False)

    def set_alignment_timeout(self, alignment_timeout: Duration | Time) -> CheckpointConfig:
        """Set the alignment timeout; see `set_aligned_checkpoint_timeout`."""
        return self.set_aligned_checkpoint_timeout(alignment_timeout)

    def get_alignment_timeout(self) -> Duration:
        """Return the alignment timeout; see `get_aligned_checkpoint_timeout`."""
        return self.get_aligned_checkpoint_timeout()

    def set_aligned_checkpoint_timeout(
        self, alignment_timeout: Duration | Time
    ) -> CheckpointConfig:
        """Set the time that barriers wait before they overtake data."""
        return self._write(options.ALIGNED_TIMEOUT, alignment_timeout.to_millis())

    def get_aligned_checkpoint_timeout(self) -> Duration:
        """Return the time in ms that barriers wait before they overtake data; 0 for none."""
        return Duration.of_millis(options.ALIGNED_TIMEOUT.read(self._configuration))

    def set_force_unaligned_checkpoints(
        self, force_unaligned_checkpoints: bool = True
    ) -> CheckpointConfig:
        """Allow unaligned checkpoints in jobs in which they may not be safe."""
        return self._write(options.FORCE_UNALIGNED, force_unaligned_checkpoints)

    def is_force_unaligned_checkpoints(self) -> bool:
        """Return whether unaligned checkpoints are allowed where they are not known to be safe."""
        return options.FORCE_UNALIGNED.read(self._configuration)

    def _write(self, option: Option[Any], value: object) -> CheckpointConfig:
        option.write(self._configuration, value)
        return self


__getattr__, __dir__ = lazy_exports(__name__, {"ExternalizedCheckpointCleanup": "penstock.flink_1"})
