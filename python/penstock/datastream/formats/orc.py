"""ORC: PyFlink's classes wrap a Java library and are refused here."""

from penstock.datastream.refused import refused_class

__all__ = [
    "OrcBulkWriters",
]

_INSTEAD = "read and write in functions with the pyarrow package"

OrcBulkWriters = refused_class("OrcBulkWriters", _INSTEAD)
