"""InputDependencyConstraint: still exported by PyFlink, but unused."""

from enum import Enum

__all__ = [
    "InputDependencyConstraint",
]


class InputDependencyConstraint(Enum):
    """When a consumer of blocking data may start."""

    ANY = 0
    ALL = 1
