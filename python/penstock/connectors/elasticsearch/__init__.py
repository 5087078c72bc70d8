"""Elasticsearch: documents written by bulk requests."""
