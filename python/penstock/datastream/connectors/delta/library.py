"""The package deltalake."""

from __future__ import annotations

from typing import Any

from penstock.common.optional_library import optional_library


def delta_library(used_by: str) -> Any:
    """The module ``deltalake``.

    Raises:
        DependencyError: It is not installed.
    """
    return optional_library("deltalake", "deltalake", "delta", used_by)
