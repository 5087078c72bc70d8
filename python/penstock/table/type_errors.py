"""The error of an invalid data type."""

from __future__ import annotations


class InvalidTypeError(ValueError):
    """A data type has an invalid length, precision, scale or field."""
