"""Declared and resolved schemas: PyFlink's ``schema``, and the way from one to the other."""

from typing import TYPE_CHECKING

from penstock.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from penstock.table.schema.schema import Schema

__all__ = [
    "Schema",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "Schema": "schema",
    },
)
