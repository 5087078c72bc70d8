"""JDBC: PyFlink's classes wrap a Java library and are refused here."""

from penstock.datastream.refused import refused_class

__all__ = [
    "JdbcConnectionOptions",
    "JdbcExecutionOptions",
    "JdbcSink",
]

_INSTEAD = "write a SinkFunction with a DB-API driver"

JdbcConnectionOptions = refused_class("JdbcConnectionOptions", _INSTEAD)
JdbcExecutionOptions = refused_class("JdbcExecutionOptions", _INSTEAD)
JdbcSink = refused_class("JdbcSink", _INSTEAD)
