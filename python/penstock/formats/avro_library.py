"""fastavro, if it is installed."""

from __future__ import annotations

from typing import Any

from penstock.common.packages.optional_library import optional_library


def avro_library(used_by: str) -> Any:
    """Import the module ``fastavro``.

    Raises:
        DependencyError: The package is not installed.
    """
    return optional_library("fastavro", "fastavro", "avro", used_by)
