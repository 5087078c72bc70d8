"""What PyFlink's utils convert between Python and Java: here there is no Java side."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from penstock.common.jvm import requires_jvm

if TYPE_CHECKING:
    from penstock.common.typeinfo import TypeInformation


class ResultTypeQueryable:
    """Something that knows the type of what it produces."""

    def get_produced_type(self) -> TypeInformation:
        """The type."""
        raise NotImplementedError(f"{type(self).__name__}.get_produced_type")


def create_hadoop_configuration(config: dict[str, str]) -> NoReturn:  # noqa: ARG001
    """Refused: there is no Hadoop configuration object."""
    requires_jvm("create_hadoop_configuration", "put the options into the job's Configuration")


def create_java_properties(config: dict[str, str]) -> NoReturn:  # noqa: ARG001
    """Refused: there are no Java properties."""
    requires_jvm("create_java_properties", "pass the dictionary itself")


def convert_to_python_obj(data: object, type_info: TypeInformation) -> NoReturn:  # noqa: ARG001
    """Refused: results are Python objects already."""
    requires_jvm("convert_to_python_obj", "results are Python objects already")


def pickled_bytes_to_python_obj(data: object, type_info: TypeInformation) -> NoReturn:  # noqa: ARG001
    """Refused: results are Python objects already."""
    requires_jvm("pickled_bytes_to_python_obj", "results are Python objects already")
