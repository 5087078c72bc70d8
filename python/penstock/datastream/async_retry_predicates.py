"""Predefined predicates for retrying asynchronous calls."""

from __future__ import annotations

from typing import Any


def empty_result_predicate(result: list[Any]) -> bool:
    """Return whether a call returned no results."""
    return not result


def has_exception_predicate(error: Exception | None) -> bool:
    """Return whether a call raised."""
    return error is not None


def exception_type_predicate(error: Exception, expected_error_type: type[Exception]) -> bool:
    """Return whether a call raised an instance of the expected class."""
    return isinstance(error, expected_error_type)
