"""Functions and classes of the program as bytes, by cloudpickle.

From 3.1.3 on cloudpickle leaves the file out of code objects.  Tracebacks of workers, the lines
that errors show, logs and flame graphs take it from there, so it is put back here.
"""

from __future__ import annotations

import io
from collections import ChainMap
from types import CodeType
from typing import Any, ClassVar, Final

import cloudpickle

_TABLE: Final[Any] = cloudpickle.Pickler.dispatch_table


def _reduced(code: CodeType) -> tuple[Any, ...]:
    make, parts, *_ = _TABLE[CodeType](code)
    return _code_of_file, (make, parts, code.co_filename)


def _code_of_file(make: Any, parts: tuple[Any, ...], file: str) -> CodeType:
    code: CodeType = make(*parts)
    return code if code.co_filename == file else code.replace(co_filename=file)


#: How values are reduced that pickle does not know, those of ``copyreg`` left out.
OWN_REDUCERS: Final[dict[type, Any]] = {**_TABLE.maps[0], CodeType: _reduced}


class CodePickler(cloudpickle.Pickler):  # type: ignore[misc]
    """cloudpickle's pickler, whose code objects keep the name of their file."""

    dispatch_table: ClassVar[Any] = ChainMap({CodeType: _reduced}, _TABLE)


def dumps(value: object) -> bytes:
    """A value and the functions and classes that it refers to as bytes, for ``pickle.loads``."""
    out = io.BytesIO()
    CodePickler(out).dump(value)
    return out.getvalue()
