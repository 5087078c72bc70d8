"""Copies of values for whom they are handed to; ``penstock._native.value_copies`` is the twin."""

import copy
from typing import Any

from penstock.errors import ValueCopyError
from penstock.taskexecutor.copy_plans import UNCHANGING_CLASSES


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
        cls = type(value)
        if cls in UNCHANGING_CLASSES or (
            cls is tuple and all(type(item) in UNCHANGING_CLASSES for item in value)
        ):
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


def cannot_be_copied(where: str, value: object, error: Exception) -> ValueCopyError:
    """The error for a value that refuses to be copied."""
    cls = type(value)
    return ValueCopyError(
        f"{where} a value of {cls.__module__}.{cls.__qualname__} that cannot be copied "
        f"({type(error).__name__}: {error}); make it of data alone, give its class a "
        "__deepcopy__, or call enable_object_reuse() on the execution config if nobody changes "
        "what is handed on"
    )
