"""DistributedCache: a program's registered files on a function's worker."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import InvalidProgramError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["DistributedCache"]


class DistributedCache:
    """The files of `StreamExecutionEnvironment.register_cached_file` on this worker."""

    def __init__(self, files: Mapping[str, str]) -> None:
        """Create the cache from paths by name; called by the runtime."""
        self._files = files

    def get_file(self, name: str) -> Path:
        """Return the path of a registered file or folder, shared by all tasks of a worker.

        Raises:
            InvalidProgramError: No file was registered under the name.
        """
        path = self._files.get(name)
        if path is None:
            known = ", ".join(map(repr, sorted(self._files))) or "none"
            raise InvalidProgramError(
                f"no cached file {name!r} was registered; register_cached_file was called for: "
                f"{known}"
            )
        return Path(path)
