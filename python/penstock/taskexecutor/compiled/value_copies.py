"""Copies of values for whom they are handed to; ``penstock._native.value_copies`` is the twin."""

import copy
from typing import Any

from penstock.taskexecutor.copies.copy_plans import UNCHANGING_CLASSES, cannot_be_copied


def never_changes(value: Any) -> bool:
    """Return whether a value can be seen at once to be one that never changes."""
    cls = type(value)
    return cls in UNCHANGING_CLASSES or (
        cls is tuple and all(type(item) in UNCHANGING_CLASSES for item in value)
    )


class ValueCopier:
    """Copies values that can change, with everything in them that can.

    Within a value, what is shared stays shared, and what leads back to itself does so in the copy.
    """

    def __init__(self, where: str) -> None:
        """Makes a copier; ``where`` says in messages what hands the values on."""
        self.where = where

    def copied(self, value: Any) -> Any:
        """A value that later changes of ``value`` do not reach: itself if it never changes.

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
        """Copies of all values of an iterable; what two of them share is copied for each.

        Raises:
            ValueCopyError: A value cannot be copied.
        """
        return [self.copied(value) for value in values]
