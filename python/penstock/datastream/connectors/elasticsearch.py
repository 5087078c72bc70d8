"""Elasticsearch: documents by bulk requests, with PyFlink's names."""

from penstock.connectors.base import DeliveryGuarantee as DeliveryGuarantee
from penstock.connectors.base import Sink as Sink
from penstock.connectors.elasticsearch.actions import ElasticsearchEmitter
from penstock.connectors.elasticsearch.sink import (
    Elasticsearch6SinkBuilder,
    Elasticsearch7SinkBuilder,
    Elasticsearch8SinkBuilder,
    ElasticsearchSink,
    FlushBackoffType,
)
from penstock.connectors.elasticsearch.sink import (
    ElasticsearchSinkBuilderBase as ElasticsearchSinkBuilderBase,
)

__all__ = [
    "Elasticsearch6SinkBuilder",
    "Elasticsearch7SinkBuilder",
    "Elasticsearch8SinkBuilder",
    "ElasticsearchEmitter",
    "ElasticsearchSink",
    "FlushBackoffType",
]
