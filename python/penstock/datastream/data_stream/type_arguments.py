"""The types that a program passes to calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.common.typeinfo import TypeInformation, as_type_information, with_field_names

if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import TypeVar

    #: The results of an operator; any if no type is declared.
    RESULT = TypeVar("RESULT", default=Any)
    Declared = TypeInformation[RESULT] | list[TypeInformation] | None

#: The fields of a row, or None for any value: type checkers read the records from the function.
Undeclared = list[TypeInformation] | None
TypeArgument = TypeInformation | Undeclared


def type_argument(type_info: TypeArgument, where: str) -> TypeInformation | None:
    """Check a type argument and return it, with explicit names for rows; None stays None.

    Raises:
        InvalidProgramError: The argument is not a type.
    """
    if type_info is None:
        return None
    return with_field_names(as_type_information(type_info, where))
