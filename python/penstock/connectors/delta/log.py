"""The log of a Delta table: the files that each version has added or removed.

The protocol of Delta Lake specifies it: https://github.com/delta-io/delta/blob/master/PROTOCOL.md
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from penstock.connectors.delta.library import delta_library
from penstock.errors import InvalidProgramError, SourceError

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Features of tables whose data files do not contain the rows unchanged.
_NOT_READ: Final = frozenset({"columnMapping", "deletionVectors"})

#: Change types of a file whose rows were all added, or all removed.
INSERTED: Final = "insert"
DELETED: Final = "delete"
#: Change types of a change data file: removed rows, and added rows.
CHANGED_FROM: Final = "change from"
CHANGED_TO: Final = "change to"


def check_features(features: Sequence[str] | None, configuration: dict[str, Any], uri: str) -> None:
    """Reject a table whose data files do not contain the rows unchanged.

    Raises:
        InvalidProgramError: The table has such a feature.
    """
    unread = _NOT_READ.intersection(features or ())
    if configuration.get("delta.columnMapping.mode", "none") != "none":
        unread |= {"columnMapping"}
    if unread:
        raise InvalidProgramError(
            f"DeltaSource: the table {uri} has the features {sorted(unread)}, which "
            "are not read; rewrite it without them"
        )


@dataclass(frozen=True)
class FileChange:
    """A file whose rows were added or removed.

    Attributes:
        path: The file, relative to the table.
        partition: Its values of the partition columns, as texts.
        what: The change type: `INSERTED`, `DELETED`, `CHANGED_FROM` or `CHANGED_TO`.
    """

    path: str
    partition: dict[str, str | None]
    what: str


@dataclass
class Version:
    """Changes of a version.

    Attributes:
        number: The version.
        time_ms: The time of its commit; None if unknown.
        files: The files added and removed.
    """

    number: int
    time_ms: int | None = None
    files: list[FileChange] = field(default_factory=list)


class DeltaLog:
    """Reads the log of a table."""

    def __init__(self, uri: str, options: dict[str, str] | None) -> None:
        """Create a reader for the table at a path or URL."""
        from deltalake.fs import DeltaStorageHandler
        from pyarrow import fs

        self._uri = uri
        self._options = options
        self.files = fs.PyFileSystem(DeltaStorageHandler(uri, options))

    def version(self, number: int) -> Version | None:
        """Return the changes of a version; None while there is no such version.

        Raises:
            SourceError: The source cannot derive the changes from its files.
        """
        try:
            with self.files.open_input_file(f"_delta_log/{number:020d}.json") as file:
                lines = file.read().decode().splitlines()
        except FileNotFoundError:
            return None
        found = Version(number)
        changes: list[FileChange] = []
        for line in lines:
            for kind, action in json.loads(line).items():
                if kind == "commitInfo":
                    found.time_ms = action.get("inCommitTimestamp", action.get("timestamp"))
                elif kind == "metaData":
                    self._check(None, action.get("configuration") or {}, number)
                elif kind == "protocol":
                    self._check(action.get("readerFeatures"), {}, number)
                elif kind == "cdc":
                    changes.extend(
                        self._change(action, what, number) for what in (CHANGED_FROM, CHANGED_TO)
                    )
                elif kind in ("add", "remove") and action.get("dataChange", True):
                    what = INSERTED if kind == "add" else DELETED
                    found.files.append(self._change(action, what, number))
        # If the table stores changes, they contain more than the rewritten files.  Their rows have
        # no order: as elsewhere, removed rows are emitted before added ones.
        found.files = sorted(changes or found.files, key=lambda file: file.what)
        return found

    def snapshot(self, number: int) -> Version:
        """Return all files of a version, as if the version had added them."""
        import pyarrow as pa

        table = delta_library("DeltaSource").DeltaTable(
            self._uri, version=number, storage_options=self._options
        )
        actions = pa.table(table.get_add_actions(flatten=False)).to_pylist()
        files = [
            FileChange(
                unquote(action["path"]),
                {
                    name: None if value is None else _text(value)
                    for name, value in (action.get("partition") or {}).items()
                },
                INSERTED,
            )
            for action in actions
        ]
        return Version(number, None, sorted(files, key=lambda file: file.path))

    def newest(self) -> int:
        """Return the number of the newest version."""
        table = delta_library("DeltaSource").DeltaTable(self._uri, storage_options=self._options)
        return int(table.version())

    def _check(
        self, features: Sequence[str] | None, configuration: dict[str, Any], number: int
    ) -> None:
        check_features(features, configuration, f"{self._uri}, version {number},")

    def _change(self, action: dict[str, Any], what: str, number: int) -> FileChange:
        path = unquote(action["path"])
        if action.get("deletionVector") or "://" in path or path.startswith("/"):
            raise SourceError(
                f"DeltaSource: version {number} of {self._uri} has files with deletion vectors, or "
                "of another table, which are not read; rewrite the table without them"
            )
        return FileChange(path, action.get("partitionValues") or {}, what)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
