"""The package deltalake."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.common.packages.optional_library import optional_library
from penstock.connectors.tables import opening

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from penstock.errors import PenstockError


def delta_library(used_by: str) -> Any:
    """Import the module ``deltalake``.

    Raises:
        DependencyError: The package is not installed.
    """
    return optional_library("deltalake", "deltalake", "delta", used_by)


def opening_of(
    uri: str, used_by: str, failure: type[PenstockError]
) -> AbstractContextManager[None]:
    """Convert any error of opening a table to one that names the table."""
    return opening(
        f"the table {uri} for {used_by}",
        failure,
        "its path or URL, the storage_options and what their user may do",
    )
