"""Schemas that compile their functions on first use, and are pickled without them."""

from __future__ import annotations

from functools import cached_property
from typing import Any


class CompiledSchema:
    """Base that excludes cached properties from pickling."""

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes except cached properties."""
        kind = type(self)
        return {
            name: value
            for name, value in vars(self).items()
            if not isinstance(getattr(kind, name, None), cached_property)
        }
