"""An alias ``pyflink`` of penstock's modules, for programs that must stay unmodified.

An import of ``pyflink.X`` yields the same module object as ``penstock.X``, so that a class is the
same under both names.  A module of PyFlink that penstock lacks raises an ImportError that says so.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.pyflink_names import add_imported_names

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

PYFLINK_VERSION: Final = "2.3.0"
"""The version of PyFlink whose API penstock implements."""

ALIAS_PATH: Final = str(Path(__file__).parent / "pyflink_path")
"""The folder that makes ``import pyflink`` mean penstock if it is on the module search path."""

_ALIAS: Final = "pyflink"
_PACKAGE: Final = "penstock"
_OWN: Final = Path(ALIAS_PATH, _ALIAS)

_NO_JVM: Final = "it talks to a JVM, and penstock has none"
_ABSENT: Final = {
    "ml": "Flink ML is not part of penstock: use a Python library inside of functions",
    "serializers": "penstock's codecs follow from the declared types: see pyflink.common.Types",
    "fn_execution": (
        "it is the inside of PyFlink's workers; what functions may use is in "
        "pyflink.datastream.functions, pyflink.datastream.state and pyflink.metrics"
    ),
    "shell": "penstock has no shell of its own: use python -i or a notebook",
    "find_flink_home": "there is no Flink distribution: options are in a config.yaml",
    "pyflink_gateway_server": _NO_JVM,
    "pyflink_callback_server": _NO_JVM,
    "gen_protos": "penstock has no protocol buffers",
    "testing": (
        "PyFlink's own test cases are not part of penstock: penstock.testing has "
        "PipelineTestHarness for whole streams, ProcessFunctionTestHarnesses and "
        "KeyedOneInputStreamOperatorTestHarness for functions, all without a cluster; see "
        "docs/testing.md"
    ),
    "examples": "PyFlink's examples are not part of penstock",
}
"""Modules that penstock lacks, with everything below them, and why."""


_FORMER: Final = {
    "common.execution_mode": "flink_1.execution_mode",
    "common.serialization_schemas": "common.serialization",
    "dataset": "flink_1.dataset",
    "dataset.execution_environment": "flink_1.dataset",
    "datastream.time_characteristic": "flink_1.time_characteristic",
    "table.descriptors": "flink_1.descriptors",
    "table.sinks": "flink_1.table_sources",
    "table.sources": "flink_1.table_sources",
    "util.exceptions": "table.exceptions",
}
"""Modules of PyFlink 1, and the modules that replace them."""


class _AliasFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds ``pyflink`` and everything below it in penstock."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname == _ALIAS:
            return importlib.util.spec_from_file_location(fullname, _OWN / "__init__.py")
        if not fullname.startswith(_ALIAS + "."):
            return None
        name = fullname.removeprefix(_ALIAS + ".")
        own = _OWN.joinpath(*name.split("."))
        for file in (own.with_suffix(".py"), own / "__init__.py"):
            if file.is_file():
                return importlib.util.spec_from_file_location(fullname, file)
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        name = spec.name.removeprefix(_ALIAS + ".")
        wanted = f"{_PACKAGE}.{_FORMER.get(name, name)}"
        _check_not_absent(name)
        try:
            module = importlib.import_module(wanted)
        except ModuleNotFoundError as error:
            if error.name != wanted:
                raise
            raise ModuleNotFoundError(
                f"{spec.name} is not part of penstock (its pyflink is the DataStream and "
                f"Table API of PyFlink {PYFLINK_VERSION})",
                name=spec.name,
            ) from None
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Restore the module's own spec, with which it was executed."""
        assert module.__spec__ is not None
        name = module.__spec__.name.removeprefix(_ALIAS + ".")
        module.__spec__ = module.__spec__.loader_state
        add_imported_names(module, name)


def _check_not_absent(name: str) -> None:
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        reason = _ABSENT.get(".".join(parts[:end]))
        if reason is not None:
            raise ModuleNotFoundError(
                f"{_ALIAS}.{name} is not part of penstock: {reason}", name=f"{_ALIAS}.{name}"
            )


def submodule(name: str) -> ModuleType:
    """Import and return a module below ``pyflink``.

    Raises:
        AttributeError: There is no such module.
        ModuleNotFoundError: PyFlink has it, but penstock does not; says what to use.
    """
    _check_not_absent(name)
    if not name.startswith("_"):
        full_name = f"{_ALIAS}.{name}"
        try:
            return importlib.import_module(full_name)
        except ModuleNotFoundError as error:
            if error.name != full_name:
                raise
    raise AttributeError(f"module {_ALIAS!r} has no attribute {name!r}")


def install() -> None:
    """Make ``import pyflink`` mean penstock in this process and in those that it starts.

    The log of a program, which many write to standard output, contains penstock's own lines only
    from WARNING on, unless the program sets another level: PyFlink writes Flink's into a file.

    Raises:
        RuntimeError: The real PyFlink was imported already.
    """
    if is_installed():
        return
    present = sys.modules.get(_ALIAS)
    if present is not None and Path(str(present.__file__)).parent != _OWN:
        raise RuntimeError("pyflink is already imported; install the alias before importing it")
    sys.meta_path.insert(0, _AliasFinder())
    log = logging.getLogger(_PACKAGE)
    if log.level == logging.NOTSET:
        log.setLevel(logging.WARNING)
    # The variable reaches processes that the program starts, such as those of multiprocessing.
    known = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    if ALIAS_PATH not in known:
        os.environ["PYTHONPATH"] = os.pathsep.join([ALIAS_PATH, *known])


class _OfferingFinder(importlib.abc.MetaPathFinder):
    """Installs the alias when ``pyflink`` is imported and no other finder has it."""

    def __init__(self, note: str) -> None:
        self._note = note

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != _ALIAS or is_installed():
            return None
        print(self._note, file=sys.stderr)
        install()
        return _AliasFinder().find_spec(fullname, path, target)


def offer(note: str) -> None:
    """Let ``import pyflink`` mean penstock in this process if there is no other pyflink.

    Args:
        note: The line for standard error that says so; it replaces that of an earlier offer.
    """
    sys.meta_path[:] = [f for f in sys.meta_path if not isinstance(f, _OfferingFinder)]
    sys.meta_path.append(_OfferingFinder(note))


def is_installed() -> bool:
    """Return whether ``import pyflink`` means penstock in this process."""
    return any(isinstance(finder, _AliasFinder) for finder in sys.meta_path)
