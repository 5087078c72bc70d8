"""Connectors of tables: what CREATE TABLE names, as sources and sinks of record batches."""
