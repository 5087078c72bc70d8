"""Functions as data: expressions, byte code, programs.

Expressions are created by `field` and the functions beside it, and are accepted wherever an
operator accepts a function:

    stream.filter(field("price") * 2 > 100).key_by(field("user").str.lower())
"""

from typing import TYPE_CHECKING

from penstock.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from penstock.expressions.expression import Expression
    from penstock.expressions.writing import (
        When,
        argument,
        as_list,
        as_row,
        as_tuple,
        coalesce,
        element,
        field,
        greatest,
        least,
        lit,
        when,
    )

__all__ = [
    "Expression",
    "When",
    "argument",
    "as_list",
    "as_row",
    "as_tuple",
    "coalesce",
    "element",
    "field",
    "greatest",
    "least",
    "lit",
    "when",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "Expression": "expression",
        "When": "writing",
        "argument": "writing",
        "as_list": "writing",
        "as_row": "writing",
        "as_tuple": "writing",
        "coalesce": "writing",
        "element": "writing",
        "field": "writing",
        "greatest": "writing",
        "least": "writing",
        "lit": "writing",
        "when": "writing",
    },
)
