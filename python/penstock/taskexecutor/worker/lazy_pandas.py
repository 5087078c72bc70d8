"""Keeps pyarrow from importing pandas before the program does.

When pyarrow converts a Python value, it imports pandas only to see whether the value is an object
of pandas.  The import takes hundreds of milliseconds.  In a worker, pyarrow finds no pandas until
the program imports it; then pyarrow looks again.

This does not reach Arrow's C++ code, which imports pandas by itself for ``to_numpy`` and for values
without a declared type; `penstock.formats.numpy_values` reads arrays without it.
"""

from __future__ import annotations

import importlib.abc
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

_ARROW = "pyarrow.lib"
_PANDAS = "pandas"


def install() -> None:
    """Defer the import of pandas in this process; without effect once it or pyarrow is imported."""
    if _ARROW not in sys.modules and _PANDAS not in sys.modules:
        sys.meta_path.insert(0, _Finder())


class _Finder(importlib.abc.MetaPathFinder):
    """Acts after the first imports of pyarrow and pandas."""

    def __init__(self) -> None:
        self._actions: dict[str, Callable[[], None]] = {_ARROW: self._hide, _PANDAS: _show}
        #: The thread in which pandas cannot be imported.
        self._hidden_in: int | None = None
        #: The number of threads that look for pandas, probably to import it.
        self._searching = 0

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self._actions:
            return None
        if fullname == _PANDAS and self._hidden_in == threading.get_ident():
            raise ModuleNotFoundError("pandas is hidden from pyarrow", name=_PANDAS)
        self._searching += fullname == _PANDAS
        try:
            for finder in sys.meta_path:
                spec = None if finder is self else finder.find_spec(fullname, path, target)
                if spec is not None:
                    if spec.loader is not None:
                        # Libraries such as Polars look for modules that they do not import.
                        spec.loader = _Loader(spec, spec.loader, self._actions[fullname])
                    return spec
            return None
        finally:
            self._searching -= fullname == _PANDAS

    def _hide(self) -> None:
        # The import of pandas in another thread waits for that of pyarrow.
        if _PANDAS in sys.modules or self._searching:
            return
        self._hidden_in = threading.get_ident()
        try:
            # pyarrow remembers that the first import failed.
            _ = sys.modules[_ARROW]._pandas_api.have_pandas
        finally:
            self._hidden_in = None


def _show() -> None:
    """Let pyarrow import pandas again."""
    arrow = sys.modules.get(_ARROW)
    if arrow is not None:
        with suppress(ImportError):  # pandas is too old for pyarrow
            _ = arrow._pandas_api.pd


class _Loader(importlib.abc.Loader):
    """Loads a module with its own loader, and then calls a function."""

    def __init__(
        self, spec: ModuleSpec, loader: importlib.abc.Loader, then: Callable[[], None]
    ) -> None:
        self._spec = spec
        self._loader = loader
        self._then = then

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._spec.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._then()
