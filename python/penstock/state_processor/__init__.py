"""Savepoints and checkpoints outside jobs: read as Arrow tables, and written from data.

::

    savepoint = Savepoint.read("file:///shared/savepoints/savepoint-…")
    counts = savepoint.keyed_state("counts", "count")   # a pyarrow.Table

    path = (
        SavepointWriter()
        .keyed_state("counts", ValueStateDescriptor("count", Types.LONG()), {"a": 3}.items())
        .write("file:///shared/savepoints")
    )
"""

from penstock.state_processor.reader import Savepoint
from penstock.state_processor.writer import SavepointWriter

__all__ = ["Savepoint", "SavepointWriter"]
