"""The choice of the operator that writes a FileSink's files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.connectors.files.bulk_writer import BulkFileSinkOperator
from penstock.connectors.files.writer import RowFileSinkOperator

if TYPE_CHECKING:
    from penstock.graph import operators
    from penstock.taskexecutor.compiled import StreamOperator
    from penstock.taskexecutor.compiled.operator_context import OperatorContext


def create_file_sink(context: OperatorContext, descriptor: operators.FileSink) -> StreamOperator:
    """Create the operator for a row format or a bulk format."""
    if descriptor.bulk_writer_factory is not None:
        return BulkFileSinkOperator(context, descriptor)
    return RowFileSinkOperator(context, descriptor)
