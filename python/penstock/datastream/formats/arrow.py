"""Arrow's IPC files, also called Feather: columns as rows (beyond PyFlink)."""

from penstock.formats.arrow import ArrowBulkWriters, ArrowColumnarRowInputFormat

__all__ = ["ArrowBulkWriters", "ArrowColumnarRowInputFormat"]
