"""Schemas that make what they work with when they are first used, and travel without it."""

from __future__ import annotations

from functools import cached_property
from typing import Any


class CompiledSchema:
    """Leaves what its cached properties have made where it is when it is pickled."""

    def __getstate__(self) -> dict[str, Any]:
        """The settings alone."""
        kind = type(self)
        return {
            name: value
            for name, value in vars(self).items()
            if not isinstance(getattr(kind, name, None), cached_property)
        }
