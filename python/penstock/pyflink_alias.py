"""Gives penstock's modules the name ``pyflink``, for programs that must stay unmodified.

An import of ``pyflink.X`` yields the very module object ``penstock.X``, so that a class is the
same class under both names.
"""

import importlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType

_ALIAS = "pyflink"
_PACKAGE = "penstock"


class _AliasFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds ``pyflink`` and everything below it in penstock."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != _ALIAS and not fullname.startswith(_ALIAS + "."):
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module = importlib.import_module(_PACKAGE + spec.name.removeprefix(_ALIAS))
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Gives the module its own spec back; it was executed under its own name."""
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state


def install() -> None:
    """Makes ``import pyflink`` mean penstock in this process.

    Raises:
        RuntimeError: the real PyFlink was imported already.
    """
    present = sys.modules.get(_ALIAS)
    if present is not None and not getattr(present, "__name__", "").startswith(_PACKAGE):
        raise RuntimeError("pyflink is already imported; install the alias before importing it")
    if not any(isinstance(finder, _AliasFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _AliasFinder())
