"""The elements of a collection that travelled with the job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.network.codec import codec_for
from penstock.taskexecutor.loop import IteratorSource, StreamOperator
from penstock.taskexecutor.sources.source_watermarks import with_watermarks

if TYPE_CHECKING:
    from penstock.taskexecutor.operator_context import OperatorContext


def create_collection_source(context: OperatorContext) -> StreamOperator:
    """Every element by the first subtask, in order."""
    arguments = context.descriptor.arguments
    codec = codec_for(arguments.get("type", context.config.output_type))
    elements = arguments["elements"] if context.environment.subtask == 0 else ()
    return with_watermarks(context, IteratorSource(map(codec.decode, elements)))
