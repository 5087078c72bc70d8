"""Elasticsearch: PyFlink's classes wrap a Java library and are refused here."""

from penstock.connectors.base import DeliveryGuarantee as DeliveryGuarantee
from penstock.connectors.base import Sink as Sink
from penstock.datastream.refused import refused_class

__all__ = [
    "Elasticsearch6SinkBuilder",
    "Elasticsearch7SinkBuilder",
    "ElasticsearchEmitter",
    "ElasticsearchSink",
    "FlushBackoffType",
]

_INSTEAD = "write a SinkFunction with the elasticsearch package"

Elasticsearch6SinkBuilder = refused_class("Elasticsearch6SinkBuilder", _INSTEAD)
Elasticsearch7SinkBuilder = refused_class("Elasticsearch7SinkBuilder", _INSTEAD)
ElasticsearchEmitter = refused_class("ElasticsearchEmitter", _INSTEAD)
ElasticsearchSink = refused_class("ElasticsearchSink", _INSTEAD)
ElasticsearchSinkBuilderBase = refused_class("ElasticsearchSinkBuilderBase", _INSTEAD)
FlushBackoffType = refused_class("FlushBackoffType", _INSTEAD)
