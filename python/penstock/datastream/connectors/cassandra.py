"""Cassandra: PyFlink's classes wrap a Java library and are rejected here."""

from penstock.common.time import Duration as Duration
from penstock.datastream.refused import refused_class

__all__ = [
    "CassandraCommitter",
    "CassandraFailureHandler",
    "CassandraSink",
    "ClusterBuilder",
    "ConsistencyLevel",
    "MapperOptions",
]

_INSTEAD = "write a SinkFunction with the cassandra-driver package"

CassandraCommitter = refused_class("CassandraCommitter", _INSTEAD)
CassandraFailureHandler = refused_class("CassandraFailureHandler", _INSTEAD)
CassandraSink = refused_class("CassandraSink", _INSTEAD)
ClusterBuilder = refused_class("ClusterBuilder", _INSTEAD)
ConsistencyLevel = refused_class("ConsistencyLevel", _INSTEAD)
MapperOptions = refused_class("MapperOptions", _INSTEAD)
