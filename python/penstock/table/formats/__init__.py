"""Formats of tables: conversions between messages or lines and rows with kinds."""
