"""Types of results, from the return annotations of functions.

An annotation describes records for features that need their fields: expressions, columns, files.
It never decides how records are written.  A function whose result does not match its annotation
therefore runs as it does without one.
"""

from __future__ import annotations

import typing
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.common.annotation_types import UntypedError, annotated, annotated_elements
from penstock.common.calls.called import called_function
from penstock.common.values.records import field_names_of
from penstock.expressions.computed import ComputedFunction
from penstock.expressions.functions import bound_function

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.common.typeinfo import TypeInformation
    from penstock.graph.transformations import Transformation


class Annotation(NamedTuple):
    """The type of records according to an annotation.

    Attributes:
        type_info: The type; None if there is none.
        problem: Why a return annotation has no type, else None.
    """

    type_info: TypeInformation | None = None
    problem: str | None = None

    def describe(self, transformation: Transformation) -> None:
        """Set the annotated type of a transformation that declares no type."""
        transformation.annotated_type = self.type_info
        transformation.annotation_problem = self.problem


NOTHING: typing.Final = Annotation()


def of_results(function: Any, method: str, *, elements: bool = False) -> Annotation:
    """Return the annotated type of the records that a function returns.

    Args:
        function: A callable, or a Function object.
        method: The method of the object that is called.
        elements: True if it returns or yields any number of records.
    """
    if isinstance(function, ComputedFunction):
        return NOTHING
    called = called_function(bound_function(function, method))
    if isinstance(called, type):
        return NOTHING if elements else of_records([called])
    if "return" not in getattr(called, "__annotations__", ()):
        return NOTHING
    try:
        hint = typing.get_type_hints(called, include_extras=True)["return"]
        if hint is Any or hint is None or hint is type(None):
            return NOTHING
        return Annotation(annotated_elements(hint) if elements else annotated(hint))
    except UntypedError as error:
        return Annotation(problem=f"{error}")
    except Exception as error:  # An annotation in quotes is code of the program.
        return Annotation(
            problem=f"the annotations of {called.__qualname__} cannot be evaluated: {error}"
        )


def of_all(annotations: Iterable[Annotation]) -> Annotation:
    """Return the annotation that several functions share."""
    first, *others = annotations
    return first if all(other == first for other in others) else NOTHING


def of_records(classes: Iterable[type]) -> Annotation:
    """Return the type of records that are all of one class with fields; else none."""
    found = set(classes)
    if len(found) != 1:
        return NOTHING
    record_class: Any = found.pop()
    if field_names_of(record_class) is None:
        return NOTHING
    try:
        return Annotation(annotated(record_class))
    except UntypedError as error:
        return Annotation(problem=f"{error}")
