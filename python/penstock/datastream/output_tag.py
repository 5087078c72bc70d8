"""OutputTag: the name and type of a side output."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, NoReturn, overload

from penstock.common.calls.jvm import requires_jvm
from penstock.common.calls.missing_methods import NoJavaMembers
from penstock.common.calls.names import checked_name
from penstock.common.typeinfo import RowTypeInfo as RowTypeInfo
from penstock.common.typeinfo import TypeInformation, Types, as_type_information
from penstock.errors import InvalidProgramError

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    #: The records of a side output: a plain ``OutputTag`` is of any.
    T = TypeVar("T", default=Any)
else:
    from typing import TypeVar

    T = TypeVar("T")


class OutputTag(NoJavaMembers, Generic[T]):
    """The name of a side output and the type of its records.

    Type checkers know the records by ``type_info``, or by an annotation such as
    ``late: OutputTag[Click]``.

    Attributes:
        tag_id: The name; tags with the same name are the same output.
        type_info: The type of the records.
    """

    @overload
    def __init__(self, tag_id: str, type_info: TypeInformation[T]) -> None: ...

    @overload
    def __init__(self, tag_id: str, type_info: list[TypeInformation] | None = None) -> None: ...

    def __init__(
        self, tag_id: str, type_info: TypeInformation | list[TypeInformation] | None = None
    ) -> None:
        """Create a tag; a list of types describes a row, None any Python value.

        Raises:
            InvalidProgramError: The name is empty or cannot be sent, or the type is not a type.
        """
        given: Any = tag_id
        if not isinstance(given, str) or not given:
            raise InvalidProgramError(
                f"an OutputTag needs a string that is not empty as its name, got {given!r}"
            )
        self.tag_id = checked_name("a side output", tag_id)
        self.type_info: TypeInformation = (
            Types.PICKLED_BYTE_ARRAY()
            if type_info is None
            else as_type_information(type_info, "OutputTag")
        )

    def get_java_output_tag(self) -> NoReturn:
        """Reject the call: there is no Java tag."""
        requires_jvm("OutputTag.get_java_output_tag", "use the tag itself")

    def __repr__(self) -> str:
        return f"OutputTag({self.tag_id!r}, {self.type_info!r})"
