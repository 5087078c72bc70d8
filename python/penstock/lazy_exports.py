"""Packages whose names are imported on first use.

A worker imports the modules it needs from many threads at once.  A package that imported its own
modules when it is imported could then deadlock: one thread holds the package's import lock and
waits for a module's, another the other way round.  It also keeps a worker's start short.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

import penstock.own_package  # noqa: F401  fails if another project has replaced this package

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping


def lazy_exports(
    package: str, modules: Mapping[str, str], submodules: Collection[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Make the ``__getattr__`` and ``__dir__`` of a package.

    Args:
        package: The name of the package.
        modules: The module, relative to the package or absolute, of each exported name.
        submodules: The modules of the package that are its attributes before anybody imports them,
            as in a package that imports them itself.
    """

    def get_attribute(name: str) -> Any:
        if name in submodules:
            return import_module(f"{package}.{name}")
        module = modules.get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        absolute = module if module.startswith("penstock.") else f"{package}.{module}"
        value = getattr(import_module(absolute), name)
        setattr(sys.modules[package], name, value)
        return value

    def directory() -> list[str]:
        return sorted({*vars(sys.modules[package]), *modules, *submodules})

    return get_attribute, directory
