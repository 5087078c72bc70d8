"""The types that a program passes to calls."""

from __future__ import annotations

from penstock.common.typeinfo import TypeInformation, as_type_information, with_field_names

TypeArgument = TypeInformation | list[TypeInformation] | None


def type_argument(type_info: TypeArgument, where: str) -> TypeInformation | None:
    """Check a type argument and return it, with explicit names for rows; None stays None.

    Raises:
        InvalidProgramError: The argument is not a type.
    """
    if type_info is None:
        return None
    return with_field_names(as_type_information(type_info, where))
