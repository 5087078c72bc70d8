"""PostgresCdcSource: the rows of a PostgreSQL table and their changes (beyond PyFlink)."""

from penstock.connectors.postgres_cdc.source import PostgresCdcSource

__all__ = ["PostgresCdcSource"]
