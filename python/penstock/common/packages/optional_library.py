"""Imports of packages that only an extra needs."""

from __future__ import annotations

import importlib
from typing import Any

from penstock.errors import DependencyError


def optional_library(module: str, package: str, extra: str, used_by: str) -> Any:
    """Return a module of a package that is installed by an extra of penstock.

    Args:
        module: The module, such as ``confluent_kafka``.
        package: Its package, by pip's name.
        extra: The extra of penstock.
        used_by: The feature that needs it, for messages.

    Raises:
        DependencyError: The module cannot be imported; the message names the extra.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise DependencyError(
            f"{used_by} needs the package {package}: "
            f"pip install 'penstock-engine[{extra}]' ({error})"
        ) from error
