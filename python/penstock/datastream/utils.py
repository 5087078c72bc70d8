"""PyFlink's conversions between Python and Java: here there is no Java side."""

from __future__ import annotations

from typing import NoReturn

from penstock.common.calls.jvm import requires_jvm
from penstock.common.configuration import Configuration as Configuration
from penstock.common.typeinfo import BasicArrayTypeInfo as BasicArrayTypeInfo
from penstock.common.typeinfo import ListTypeInfo as ListTypeInfo
from penstock.common.typeinfo import MapTypeInfo as MapTypeInfo
from penstock.common.typeinfo import ObjectArrayTypeInfo as ObjectArrayTypeInfo
from penstock.common.typeinfo import PrimitiveArrayTypeInfo as PrimitiveArrayTypeInfo
from penstock.common.typeinfo import RowTypeInfo as RowTypeInfo
from penstock.common.typeinfo import TupleTypeInfo as TupleTypeInfo
from penstock.common.typeinfo import TypeInformation as TypeInformation  # noqa: TC001 - as PyFlink's module
from penstock.common.typeinfo import Types as Types
from penstock.common.types import Row as Row
from penstock.common.types import RowKind as RowKind


class ResultTypeQueryable:
    """An object that knows the type of its results."""

    def get_produced_type(self) -> TypeInformation:
        """Return the type."""
        raise NotImplementedError(f"{type(self).__name__}.get_produced_type")


def create_hadoop_configuration(config: dict[str, str]) -> NoReturn:  # noqa: ARG001
    """Reject the call: there is no Hadoop configuration object."""
    requires_jvm("create_hadoop_configuration", "put the options into the job's Configuration")


def create_java_properties(config: dict[str, str]) -> NoReturn:  # noqa: ARG001
    """Reject the call: there are no Java properties."""
    requires_jvm("create_java_properties", "pass the dictionary itself")


def convert_to_python_obj(data: object, type_info: TypeInformation) -> NoReturn:  # noqa: ARG001
    """Reject the call: results are Python objects already."""
    requires_jvm("convert_to_python_obj", "results are Python objects already")


def pickled_bytes_to_python_obj(data: object, type_info: TypeInformation) -> NoReturn:  # noqa: ARG001
    """Reject the call: results are Python objects already."""
    requires_jvm("pickled_bytes_to_python_obj", "results are Python objects already")
