"""The package deltalake."""

from __future__ import annotations

from typing import Any

from penstock.errors import DependencyError


def delta_library(used_by: str) -> Any:
    """The module ``deltalake``.

    Raises:
        DependencyError: It is not installed.
    """
    try:
        import deltalake
    except ImportError as error:
        raise DependencyError(
            f"{used_by} needs the package deltalake: pip install 'penstock[delta]' ({error})"
        ) from error
    return deltalake
