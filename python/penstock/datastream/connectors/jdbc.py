"""A sink that writes rows into tables of databases, with JDBC's names over DB-API 2.

A batch is one transaction, written when it is full, when its time is over, and before each
checkpoint.  After a failure, rows may be written twice.  SQL that replaces a row by its key, such
as ``INSERT … ON CONFLICT … DO UPDATE``, has the same result as without the failure.
"""

from penstock.common.typeinfo import RowTypeInfo as RowTypeInfo
from penstock.connectors.jdbc.connection import JdbcConnectionOptions
from penstock.connectors.jdbc.lookup import JdbcLookup
from penstock.connectors.jdbc.sink import JdbcExecutionOptions, JdbcSink
from penstock.datastream.functions.source_sink import SinkFunction as SinkFunction

__all__ = ["JdbcConnectionOptions", "JdbcExecutionOptions", "JdbcLookup", "JdbcSink"]
