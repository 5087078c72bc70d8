"""Sources and sinks of tables in PyFlink 1, which were Java's: each use names the replacement."""

from __future__ import annotations

from typing import Final

from penstock.datastream.refused import refused_class

_INSTEAD: Final = (
    "it is of PyFlink 1; write create_temporary_table(name, TableDescriptor.for_connector("
    "'filesystem').schema(…).option('path', …).format('csv').build()), or the same as CREATE TABLE"
)

CsvTableSink = refused_class("CsvTableSink", _INSTEAD)
CsvTableSource = refused_class("CsvTableSource", _INSTEAD)
TableSink = refused_class("TableSink", _INSTEAD)
TableSource = refused_class("TableSource", _INSTEAD)
WriteMode = refused_class("WriteMode", _INSTEAD)
