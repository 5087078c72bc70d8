"""fastavro, where it is installed."""

from __future__ import annotations

from typing import Any

from penstock.errors import DependencyError


def avro_library(used_by: str) -> Any:
    """The module ``fastavro``.

    Raises:
        DependencyError: It is not installed.
    """
    try:
        import fastavro
    except ImportError as error:
        raise DependencyError(
            f"{used_by} needs the package fastavro: pip install 'penstock[avro]' ({error})"
        ) from error
    return fastavro
