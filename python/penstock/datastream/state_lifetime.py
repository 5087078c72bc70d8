"""Lifetimes of state, as a configuration or a duration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.common.time import Duration, Time
from penstock.datastream.state_ttl_config import StateTtlConfig
from penstock.errors import WrongArgumentError

if TYPE_CHECKING:
    from penstock.datastream.state import StateDescriptor

#: The lifetime of state since its last write.
Lifetime = StateTtlConfig | Duration | Time | None


def ttl_config(lifetime: Any, where: str) -> StateTtlConfig | None:
    """Return the configuration of a lifetime; None for state that does not expire.

    Raises:
        WrongArgumentError: The argument is neither a configuration nor a duration.
    """
    if lifetime is None or isinstance(lifetime, StateTtlConfig):
        return lifetime
    if isinstance(lifetime, Duration | Time):
        return StateTtlConfig.new_builder(Time.milliseconds(lifetime.to_millis())).build()
    raise WrongArgumentError(
        f"{where}: ttl must be a StateTtlConfig, a Duration or a Time, got {lifetime!r}"
    )


def expiring(descriptor: StateDescriptor, config: StateTtlConfig | None) -> Any:
    """Set a descriptor's time to live, unless it is None, and return the descriptor."""
    if config is not None:
        descriptor.enable_time_to_live(config)
    return descriptor
