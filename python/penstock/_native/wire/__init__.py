"""Bytes of records: their limits, errors and texts."""
