"""The error of a data type that cannot be."""

from __future__ import annotations


class InvalidTypeError(ValueError):
    """A data type has an invalid length, precision, scale or field."""
