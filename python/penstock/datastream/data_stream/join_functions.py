"""Calls of user functions that join two records."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from penstock.common.values.change_rows import type_of_changes
from penstock.datastream.annotations import NOTHING, Annotation, of_results
from penstock.datastream.functions import FlatJoinFunction, Function, JoinFunction
from penstock.datastream.functions.function import check_function
from penstock.errors import WrongArgumentError
from penstock.expressions.computed import ComputedFunction, computed, result_type
from penstock.expressions.functions import bound_function

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.common.typeinfo import TypeInformation
    from penstock.datastream.functions import RuntimeContext

#: The sides whose records are also joined without a match: neither, one or both.
How = Literal["inner", "left", "right", "full"]


class JoinContext(NamedTuple):
    """The key and window of the records that a join or coGroup function receives.

    Attributes:
        key: The key that the records have in common.
        window: The window of the records; None without windows.
    """

    key: Any
    window: Any = None


def outer_sides(how: object, where: str, allowed: Sequence[str]) -> tuple[bool, bool]:
    """Return for each side whether its records are joined without a match.

    Raises:
        WrongArgumentError: ``how`` is none of the allowed forms.
    """
    if how not in allowed:
        names = " or ".join(map(repr, allowed))
        raise WrongArgumentError(f"{where}: how must be {names}, got {how!r}")
    return how in ("left", "full"), how in ("right", "full")


def takes_context(function: Any, method: str) -> bool:
    """Return whether a function of two records has a third parameter, ``ctx`` or ``context``."""
    if isinstance(function, ComputedFunction):
        return False
    try:
        parameters = list(inspect.signature(bound_function(function, method)).parameters.values())
    except ValueError:  # a builtin function without a signature
        return False
    return len(parameters) > 2 and parameters[2].name in ("ctx", "context")


class Joining:
    """A function that joins two records: an object, a callable or an expression.

    Attributes:
        function: The function.
        is_flat: True if it returns any number of records.
        has_context: True if it also receives a `JoinContext`.
    """

    def __init__(
        self, function: Any, types: Sequence[TypeInformation], where: str = "join apply"
    ) -> None:
        """Wrap the function of a program.

        Args:
            function: A JoinFunction, a FlatJoinFunction, a callable or an expression.
            types: The types of both sides' records, as far as they are known.
            where: The name of the call, for messages.

        Raises:
            InvalidProgramError: The function is none of these, or the expression cannot be
                computed from such records.
        """
        self.function = computed(function, where, types)
        self.is_flat = isinstance(self.function, FlatJoinFunction)
        if not self.is_flat:
            check_function(self.function, JoinFunction, where, or_callable=True)
        self.has_context = takes_context(self.function, "join")

    def annotation(self, *, as_changes: bool = False) -> Annotation:
        """Return the type that the function declares for its results.

        Args:
            as_changes: True if results become rows that change.
        """
        found = of_results(self.function, "join", elements=self.is_flat)
        if not as_changes:
            return found
        known = result_type(self.function, found.type_info)
        return NOTHING if known is None else Annotation(type_of_changes(known))

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open the function."""
        if isinstance(self.function, Function):
            self.function.open(runtime_context)
        self._join = bound_function(self.function, "join")

    def close(self) -> None:
        """Close the function."""
        if isinstance(self.function, Function):
            self.function.close()

    def results(self, left: Any, right: Any, key: Any, window: Any = None) -> Iterable[Any]:
        """Return the results of a pair; one of the two may be None."""
        if self.has_context:
            joined = self._join(left, right, JoinContext(key, window))
        else:
            joined = self._join(left, right)
        if not self.is_flat:
            return (joined,)
        return () if joined is None else joined
