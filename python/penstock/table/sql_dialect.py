"""SqlDialect: the SQL dialects that PyFlink names."""

from __future__ import annotations

__all__ = ["SqlDialect"]


class SqlDialect:
    """SQL dialects; penstock only supports Flink's."""

    DEFAULT = 0
    HIVE = 1
