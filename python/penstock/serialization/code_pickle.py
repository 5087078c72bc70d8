"""Serialization of the program's functions and classes by cloudpickle.

Since 3.1.3, cloudpickle omits the file name from code objects.  Tracebacks, error messages, logs
and flame graphs need it, so this module restores it.  cloudpickle also creates a class before it
sets ``__slots__``, which then have no effect: instances had a ``__dict__`` on workers, and could
not be restored where the class has none.
"""

from __future__ import annotations

import io
from collections import ChainMap
from types import CodeType, FunctionType
from typing import Any, ClassVar, Final

import cloudpickle
from cloudpickle.cloudpickle import _make_skeleton_class

from penstock.serialization.named_objects import reduced as reduced_object
from penstock.serialization.named_objects import reduced_dispatcher

_TABLE: Final[Any] = cloudpickle.Pickler.dispatch_table


def _reduced(code: CodeType) -> tuple[Any, ...]:
    make, parts, *_ = _TABLE[CodeType](code)
    return _code_of_file, (make, parts, code.co_filename)


def _code_of_file(make: Any, parts: tuple[Any, ...], file: str) -> CodeType:
    code: CodeType = make(*parts)
    return code if code.co_filename == file else code.replace(co_filename=file)


#: Reducers of types that pickle does not support, without those of ``copyreg``.
OWN_REDUCERS: Final[dict[type, Any]] = {**_TABLE.maps[0], CodeType: _reduced}


class CodePickler(cloudpickle.Pickler):  # type: ignore[misc]
    """cloudpickle's pickler; code keeps the name of its file, and classes keep their slots."""

    dispatch_table: ClassVar[Any] = ChainMap({CodeType: _reduced}, _TABLE)

    def reducer_override(self, obj: Any) -> Any:
        """Return the reduction of a class, function or named object of the program."""
        if isinstance(obj, FunctionType):
            dispatcher = reduced_dispatcher(obj)
            if dispatcher is not None:
                return dispatcher
        elif not isinstance(obj, type):
            return reduced_object(obj, self.dispatch_table)
        reduced = super().reducer_override(obj)
        if type(reduced) is not tuple or reduced[0] is not _make_skeleton_class:
            return reduced
        # Tuples have no slots of their own, and NamedTuple rejects even empty ones.
        if "__slots__" not in obj.__dict__ or issubclass(obj, tuple):
            return reduced
        make, (metaclass, name, bases, namespace, *others), *rest = reduced
        namespace = {**namespace, "__slots__": obj.__dict__["__slots__"]}
        return make, (metaclass, name, bases, namespace, *others), *rest


def dumps(value: object) -> bytes:
    """Pickle a value with the functions and classes that it refers to, for ``pickle.loads``."""
    out = io.BytesIO()
    CodePickler(out).dump(value)
    return out.getvalue()


def bounded_dumps(value: object, limit_bytes: int) -> bytes:
    """Pickle as `dumps`, without ever holding more than ``limit_bytes``.

    Raises:
        ValueError: The value needs more.
    """
    out = _BoundedBytes(limit_bytes)
    CodePickler(out).dump(value)
    return out.getvalue()


class _BoundedBytes(io.BytesIO):
    """A buffer that raises when it would exceed a limit."""

    def __init__(self, limit_bytes: int) -> None:
        super().__init__()
        self._limit_bytes = limit_bytes

    def write(self, data: Any) -> int:
        if self.tell() + len(data) > self._limit_bytes:
            raise ValueError(f"the pickle has more than {self._limit_bytes} bytes")
        return super().write(data)
