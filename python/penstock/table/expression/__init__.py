"""Expressions of the Table API: PyFlink's ``expression``, and the resolution of calls."""

from typing import TYPE_CHECKING

from penstock.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from penstock.table.expression.expression import Expression
    from penstock.table.expression.options import (
        JsonExistsOnError,
        JsonOnNull,
        JsonQueryOnEmptyOrError,
        JsonQueryWrapper,
        JsonType,
        JsonValueOnEmptyOrError,
        TimeIntervalUnit,
        TimePointUnit,
    )

__all__ = [
    "Expression",
    "JsonExistsOnError",
    "JsonOnNull",
    "JsonQueryOnEmptyOrError",
    "JsonQueryWrapper",
    "JsonType",
    "JsonValueOnEmptyOrError",
    "TimeIntervalUnit",
    "TimePointUnit",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "Expression": "expression",
        "JsonExistsOnError": "options",
        "JsonOnNull": "options",
        "JsonQueryOnEmptyOrError": "options",
        "JsonQueryWrapper": "options",
        "JsonType": "options",
        "JsonValueOnEmptyOrError": "options",
        "TimeIntervalUnit": "options",
        "TimePointUnit": "options",
    },
)
