"""The code of a job as bytes, together with the classes of its values.

Every chain carries all classes of the job whose instances may travel, so that each process of the
job knows them by the same names and numbers (``network.value_layouts``).
"""

from __future__ import annotations

import enum
import io
from typing import TYPE_CHECKING, Any, Final

from penstock.errors import InvalidProgramError
from penstock.serialization.class_reference import (
    is_own,
    module_of,
    other_names_of,
    register,
    register_other_name,
)
from penstock.serialization.code_pickle import CodePickler
from penstock.serialization.value_layouts import layout_of, number_classes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.graph.job_graph import ChainConfig

_OWN_PACKAGE: Final = "penstock."

Classes = list[tuple[str | None, type]]
OtherNames = list[tuple[str, type]]


class JobCode:
    """Pickles the chains of a job."""

    def __init__(self) -> None:
        """Start without classes."""
        self._classes: dict[type, str | None] = {}
        self._other_names: dict[str, type] = {}

    def pickled(self, chains: Sequence[ChainConfig]) -> list[bytes]:
        """Return the pickled code of each chain.

        Raises:
            InvalidProgramError: An operator, which the error names, cannot be pickled.
        """
        codes = [self._pickled(chain, chain) for chain in chains]
        if not self._classes and not self._other_names:
            return codes
        classes: Classes = [(reference, cls) for cls, reference in self._classes.items()]
        other_names: OtherNames = list(self._other_names.items())
        _know(classes, other_names)
        return [self._pickled(chain, _WithClasses(classes, other_names, chain)) for chain in chains]

    def _pickled(self, chain: ChainConfig, whole: object) -> bytes:
        try:
            return self._dumped(whole)
        except Exception as error:
            # Pickling runs the user's own reduce functions, so it may raise any exception.  Find
            # the operator to blame, because the error of the whole chain does not name it.
            self._blame(chain)
            raise InvalidProgramError(f"a chain cannot be pickled: {error}") from error

    def _blame(self, chain: ChainConfig) -> None:
        for operator in chain.operators:
            try:
                self._dumped(operator)
            except Exception as error:
                raise InvalidProgramError(
                    f"operator {operator.name!r} cannot be shipped to the workers, because its "
                    f"function or what it refers to cannot be pickled: {error}; create such "
                    "objects in open() instead"
                ) from error

    def _dumped(self, value: object) -> bytes:
        out = io.BytesIO()
        _NotingPickler(out, self._note).dump(value)
        return out.getvalue()

    def _note(self, cls: type) -> None:
        """Add a class of values: neither a function nor a class of penstock."""
        if cls in self._classes or any(
            module_of(base).startswith(_OWN_PACKAGE) for base in cls.__mro__
        ):
            return
        if not issubclass(cls, type):
            self._other_names.update((other, cls) for other in other_names_of(cls))
        if not is_own(cls):
            if layout_of(cls) is not None:
                self._classes[cls] = None
        elif layout_of(cls) is not None or not issubclass(cls, type):
            self._classes[cls] = register(cls)


class _NotingPickler(CodePickler):
    """Reports every class that it pickles."""

    def __init__(self, out: io.BytesIO, note: Any) -> None:
        super().__init__(out)
        self._note = note

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, type):
            self._note(obj)
        elif isinstance(obj, enum.Enum):
            self._note(type(obj))
        return super().reducer_override(obj)


class _WithClasses:
    """A chain and the classes of the job; unpickling returns the chain."""

    def __init__(self, classes: Classes, other_names: OtherNames, chain: ChainConfig) -> None:
        self._parts = (classes, other_names, chain)

    def __reduce__(self) -> Any:
        return load_job_code, self._parts


def load_job_code(classes: Classes, other_names: OtherNames, chain: ChainConfig) -> ChainConfig:
    """Register the classes of a job in this process; return the chain."""
    _know(classes, other_names)
    return chain


def _know(classes: Classes, other_names: OtherNames) -> None:
    number_classes(classes)
    for reference, cls in other_names:
        register_other_name(cls, reference)
