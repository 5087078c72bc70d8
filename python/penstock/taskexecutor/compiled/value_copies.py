"""Copies of values for their receivers.

``penstock._native.values.value_copies`` is the native twin.
"""

import copy
from typing import Any

from penstock.taskexecutor.copies.copy_plans import UNCHANGING_CLASSES, cannot_be_copied


def never_changes(value: Any) -> bool:
    """Return whether a value is immutable, as far as a quick check can tell."""
    cls = type(value)
    return cls in UNCHANGING_CLASSES or (
        cls is tuple and all(type(item) in UNCHANGING_CLASSES for item in value)
    )


class ValueCopier:
    """Copies mutable values, with all mutable parts in them.

    Within a value, shared parts stay shared, and cycles stay cycles in the copy.
    """

    def __init__(self, where: str) -> None:
        """Create a copier; ``where`` names the sender of the values in messages."""
        self.where = where

    def copied(self, value: Any) -> Any:
        """Return a value that changes of ``value`` do not affect: itself if it is immutable.

        Raises:
            ValueCopyError: The value cannot be copied.
        """
        if never_changes(value):
            return value
        try:
            return copy.deepcopy(value)
        except Exception as error:
            raise cannot_be_copied(self.where, value, error) from error

    def copied_all(self, values: Any) -> list[Any]:
        """Return copies of all values of an iterable; shared parts are copied for each.

        Raises:
            ValueCopyError: A value cannot be copied.
        """
        return [self.copied(value) for value in values]
