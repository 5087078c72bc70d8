"""Connectors: sources and sinks."""

from typing import TYPE_CHECKING

from penstock.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from penstock.datastream.connectors.base import (
        DeliveryGuarantee,
        Sink,
        Source,
    )

__all__ = [
    "DeliveryGuarantee",
    "Sink",
    "Source",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "DeliveryGuarantee": "base",
        "Sink": "base",
        "Source": "base",
    },
)
