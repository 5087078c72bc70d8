"""Elasticsearch: documents by bulk requests."""
