"""Joins of two sides, of a table's versions, and with rows that are looked up."""
