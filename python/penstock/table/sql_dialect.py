"""SqlDialect: the dialects of SQL that PyFlink names."""

from __future__ import annotations

__all__ = ["SqlDialect"]


class SqlDialect:
    """Dialects; penstock has Flink's."""

    DEFAULT = 0
    HIVE = 1
