"""SimpleStringEncoder, and the builder of a DefaultRollingPolicy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.common.serialization import Encoder
from penstock.connectors.files.buckets import DefaultRollingPolicy
from penstock.flink_1 import say_once

if TYPE_CHECKING:
    from typing import Self


class SimpleStringEncoder(Encoder):
    """Writes the text of a record, and a line feed."""

    def __init__(self, charset_name: str = "UTF-8") -> None:
        """Create an encoder."""
        say_once("SimpleStringEncoder", "use Encoder.simple_string_encoder()")
        super().__init__(charset_name)


class PolicyBuilder:
    """Builder of a policy that finishes files by size, age and inactivity."""

    def __init__(self) -> None:
        """Start with 128 MiB, a minute of age and a minute of inactivity."""
        self.part_size = 128 * 1024 * 1024
        self.rollover_interval = 60 * 1000
        self.inactivity_interval = 60 * 1000

    def with_max_part_size(self, size: int) -> Self:
        """Set the size, in bytes, from which a file is finished."""
        self.part_size = size
        return self

    def with_inactivity_interval(self, interval: int) -> Self:
        """Set the time, in ms, after which a file that is not written to is finished."""
        self.inactivity_interval = interval
        return self

    def with_rollover_interval(self, interval: int) -> Self:
        """Set the age, in ms, from which a file is finished."""
        self.rollover_interval = interval
        return self

    def build(self) -> DefaultRollingPolicy:
        """Return the policy.

        Raises:
            InvalidProgramError: A size or an interval is not positive.
        """
        return DefaultRollingPolicy.default_rolling_policy(
            self.part_size, self.rollover_interval, self.inactivity_interval
        )
