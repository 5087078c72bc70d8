"""Source and Sink: what connectors are for the builders of programs."""

from penstock.connectors.base import (
    DeliveryGuarantee,
    Sink,
    Source,
    StreamTransformer,
    SupportsPreprocessing,
)
from penstock.datastream.functions.source_sink import JavaFunctionWrapper as JavaFunctionWrapper

__all__ = ["DeliveryGuarantee", "Sink", "Source", "StreamTransformer", "SupportsPreprocessing"]
