"""Connectors of CREATE TABLE, as sources and sinks of record batches."""
