"""Options of the archive of finished jobs, and of the server that shows it."""

from __future__ import annotations

from typing import Final

from penstock.common.options.option import Option
from penstock.common.options.value_types import (
    DurationType,
    FolderType,
    IntegerType,
    PortRangeType,
    TextType,
)

ARCHIVE_FOLDER: Final[Option[str | None]] = Option(
    "jobmanager.archive.fs.dir",
    FolderType(),
    None,
    "directory for archives of ended jobs, one file for each job; a path or URL",
    default_text="nowhere",
    scope="cluster",
)
SERVED_FOLDERS: Final[Option[str | None]] = Option(
    "historyserver.archive.fs.dir",
    FolderType(),
    None,
    "the directories of archives that `penstock history-server` shows, separated by commas",
    default_text="that of `jobmanager.archive.fs.dir`",
    scope="cluster",
)
REFRESH_INTERVAL: Final = Option(
    "historyserver.archive.fs.refresh-interval",
    DurationType(1),
    10_000,
    "interval at which the history server looks for new archives",
    scope="cluster",
)
RETAINED_JOBS: Final = Option(
    "historyserver.archive.retained-jobs",
    IntegerType(-1),
    -1,
    "number of archives that the history server keeps in each directory, those of the jobs "
    "that ended last; it deletes the others; -1 keeps all",
    scope="cluster",
)
ADDRESS: Final = Option(
    "historyserver.web.address",
    TextType(),
    "127.0.0.1",
    "address on which the history server listens",
    scope="cluster",
)
PORT: Final[Option[tuple[int, ...] | None]] = Option(
    "historyserver.web.port",
    PortRangeType(),
    (8082,),
    "port on which the history server listens; 0 for any free port",
    default_text="8082",
    scope="cluster",
)
PAGE_REFRESH_INTERVAL: Final = Option(
    "historyserver.web.refresh-interval",
    DurationType(100),
    10_000,
    "interval at which the page of the history server is updated",
    scope="cluster",
)
