"""CheckpointConfig: when and how checkpoints are taken, a typed view of the Configuration."""

from __future__ import annotations

from penstock.common.configuration import Configuration
from penstock.common.time import Duration
from penstock.datastream.checkpointing_mode import CheckpointingMode
from penstock.datastream.externalized_checkpoint_retention import ExternalizedCheckpointRetention
from penstock.errors import ConfigurationError

__all__ = [
    "CheckpointConfig",
]

_PREFIX = "execution.checkpointing."
_INTERVAL = _PREFIX + "interval"
_MODE = _PREFIX + "mode"
_TIMEOUT = _PREFIX + "timeout"
_MIN_PAUSE = _PREFIX + "min-pause"
_MAX_CONCURRENT = _PREFIX + "max-concurrent-checkpoints"
_TOLERABLE_FAILURES = _PREFIX + "tolerable-failed-checkpoints"
_RETENTION = _PREFIX + "externalized-checkpoint-retention"
_UNALIGNED = _PREFIX + "unaligned.enabled"
_FORCE_UNALIGNED = _PREFIX + "unaligned.forced"
_ALIGNED_TIMEOUT = _PREFIX + "aligned-checkpoint-timeout"

_DEFAULT_TIMEOUT_MS = 600_000
_MIN_INTERVAL_MS = 10
_MAX_INTERVAL_MS = (1 << 63) - 1


class CheckpointConfig:
    """When and how checkpoints are taken."""

    DEFAULT_TIMEOUT = _DEFAULT_TIMEOUT_MS

    def __init__(self, configuration: Configuration | None = None) -> None:
        """Makes a view of a configuration, of a new one when None."""
        self._configuration = Configuration() if configuration is None else configuration

    def is_checkpointing_enabled(self) -> bool:
        """Whether checkpoints are taken."""
        return self.get_checkpoint_interval() > 0

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """What checkpoints guarantee; AT_LEAST_ONCE as long as none are taken."""
        if not self.is_checkpointing_enabled():
            return CheckpointingMode.AT_LEAST_ONCE
        text = self._configuration.get_string(_MODE, None) or "EXACTLY_ONCE"
        name = text.upper().replace("-", "_")
        if name not in CheckpointingMode.__members__:
            raise ConfigurationError(f"{_MODE}: {text!r} is no checkpointing mode")
        return CheckpointingMode[name]

    def set_checkpointing_mode(self, checkpointing_mode: CheckpointingMode) -> CheckpointConfig:
        """Sets what checkpoints guarantee."""
        self._configuration.set_string(_MODE, checkpointing_mode.name)
        return self

    def get_checkpoint_interval(self) -> int:
        """The distance of checkpoints in ms; -1 when there are none."""
        return self._millis(_INTERVAL, -1)

    def set_checkpoint_interval(self, checkpoint_interval: int) -> CheckpointConfig:
        """Sets the distance of checkpoints in ms.

        Raises:
            ConfigurationError: It is less than 10 ms.
        """
        if not _MIN_INTERVAL_MS <= checkpoint_interval <= _MAX_INTERVAL_MS:
            raise ConfigurationError(
                f"a checkpoint interval must be at least {_MIN_INTERVAL_MS} ms, "
                f"got {checkpoint_interval}"
            )
        return self._set_millis(_INTERVAL, checkpoint_interval)

    def get_checkpoint_timeout(self) -> int:
        """After how long a checkpoint is given up, in ms."""
        return self._millis(_TIMEOUT, _DEFAULT_TIMEOUT_MS)

    def set_checkpoint_timeout(self, checkpoint_timeout: int) -> CheckpointConfig:
        """Sets after how long a checkpoint is given up, in ms.

        Raises:
            ConfigurationError: It is less than 10 ms.
        """
        if checkpoint_timeout < _MIN_INTERVAL_MS:
            raise ConfigurationError(
                f"a checkpoint timeout must be at least {_MIN_INTERVAL_MS} ms, "
                f"got {checkpoint_timeout}"
            )
        return self._set_millis(_TIMEOUT, checkpoint_timeout)

    def get_min_pause_between_checkpoints(self) -> int:
        """How long after one checkpoint the next may begin, in ms."""
        return self._millis(_MIN_PAUSE, 0)

    def set_min_pause_between_checkpoints(
        self, min_pause_between_checkpoints: int
    ) -> CheckpointConfig:
        """Sets how long after one checkpoint the next may begin, in ms.

        Raises:
            ConfigurationError: It is negative.
        """
        if min_pause_between_checkpoints < 0:
            raise ConfigurationError(
                f"a pause cannot be negative, got {min_pause_between_checkpoints} ms"
            )
        return self._set_millis(_MIN_PAUSE, min_pause_between_checkpoints)

    def get_max_concurrent_checkpoints(self) -> int:
        """How many checkpoints may be under way at a time."""
        return self._configuration.get_integer(_MAX_CONCURRENT, 1)

    def set_max_concurrent_checkpoints(self, max_concurrent_checkpoints: int) -> CheckpointConfig:
        """Sets how many checkpoints may be under way at a time.

        Raises:
            ConfigurationError: It is not positive.
        """
        if max_concurrent_checkpoints < 1:
            raise ConfigurationError(
                f"at least one checkpoint must be allowed, got {max_concurrent_checkpoints}"
            )
        self._configuration.set_integer(_MAX_CONCURRENT, max_concurrent_checkpoints)
        return self

    def is_fail_on_checkpointing_errors(self) -> bool:
        """Whether the first failed checkpoint makes the job fail."""
        return self.get_tolerable_checkpoint_failure_number() == 0

    def set_fail_on_checkpointing_errors(
        self, fail_on_checkpointing_errors: bool
    ) -> CheckpointConfig:
        """Sets whether the first failed checkpoint makes the job fail, or none does."""
        return self.set_tolerable_checkpoint_failure_number(
            0 if fail_on_checkpointing_errors else (1 << 31) - 1
        )

    def get_tolerable_checkpoint_failure_number(self) -> int:
        """How many checkpoints in a row may fail."""
        return self._configuration.get_integer(_TOLERABLE_FAILURES, 0)

    def set_tolerable_checkpoint_failure_number(
        self, tolerable_checkpoint_failure_number: int
    ) -> CheckpointConfig:
        """Sets how many checkpoints in a row may fail.

        Raises:
            ConfigurationError: It is negative.
        """
        if tolerable_checkpoint_failure_number < 0:
            raise ConfigurationError(
                f"a number of failures cannot be negative: {tolerable_checkpoint_failure_number}"
            )
        self._configuration.set_integer(_TOLERABLE_FAILURES, tolerable_checkpoint_failure_number)
        return self

    def set_externalized_checkpoint_retention(
        self, retention_mode: ExternalizedCheckpointRetention
    ) -> CheckpointConfig:
        """Sets what happens to checkpoints when the job is cancelled."""
        self._configuration.set_string(_RETENTION, retention_mode.name)
        return self

    def is_externalized_checkpoints_enabled(self) -> bool:
        """Whether checkpoints may outlive the job."""
        none = ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS
        return self.get_externalized_checkpoint_retention() is not none

    def get_externalized_checkpoint_retention(self) -> ExternalizedCheckpointRetention:
        """What happens to checkpoints when the job is cancelled."""
        text = self._configuration.get_string(_RETENTION, None) or "NO_EXTERNALIZED_CHECKPOINTS"
        name = text.upper().replace("-", "_")
        if name not in ExternalizedCheckpointRetention.__members__:
            raise ConfigurationError(f"{_RETENTION}: {text!r} is no retention")
        return ExternalizedCheckpointRetention[name]

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Whether checkpoints overtake data that waits in buffers, which needs EXACTLY_ONCE."""
        return (
            self._configuration.get_boolean(_UNALIGNED, False)
            and self.get_checkpointing_mode() is CheckpointingMode.EXACTLY_ONCE
        )

    def enable_unaligned_checkpoints(self, enabled: bool = True) -> CheckpointConfig:
        """Lets checkpoints overtake data that waits in buffers, and store it."""
        self._configuration.set_boolean(_UNALIGNED, enabled)
        return self

    def disable_unaligned_checkpoints(self) -> CheckpointConfig:
        """Lets checkpoints wait for the data before them."""
        return self.enable_unaligned_checkpoints(False)

    def set_alignment_timeout(self, alignment_timeout: Duration) -> CheckpointConfig:
        """As `set_aligned_checkpoint_timeout`."""
        return self.set_aligned_checkpoint_timeout(alignment_timeout)

    def get_alignment_timeout(self) -> Duration:
        """As `get_aligned_checkpoint_timeout`."""
        return self.get_aligned_checkpoint_timeout()

    def set_aligned_checkpoint_timeout(self, alignment_timeout: Duration) -> CheckpointConfig:
        """Sets after how long of waiting a checkpoint overtakes data."""
        return self._set_millis(_ALIGNED_TIMEOUT, alignment_timeout.to_millis())

    def get_aligned_checkpoint_timeout(self) -> Duration:
        """After how long of waiting a checkpoint overtakes data; 0 for at once."""
        return Duration.of_millis(self._millis(_ALIGNED_TIMEOUT, 0))

    def set_force_unaligned_checkpoints(
        self, force_unaligned_checkpoints: bool = True
    ) -> CheckpointConfig:
        """Allows unaligned checkpoints where they are not known to be safe."""
        self._configuration.set_boolean(_FORCE_UNALIGNED, force_unaligned_checkpoints)
        return self

    def is_force_unaligned_checkpoints(self) -> bool:
        """Whether unaligned checkpoints are allowed where they are not known to be safe."""
        return self._configuration.get_boolean(_FORCE_UNALIGNED, False)

    def _millis(self, key: str, default_ms: int) -> int:
        text = self._configuration.get_string(key, None)
        return default_ms if text is None else Duration.parse(text).to_millis()

    def _set_millis(self, key: str, millis: int) -> CheckpointConfig:
        self._configuration.set_string(key, f"{millis} ms")
        return self
