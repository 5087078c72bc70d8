"""Execution of SQL statements."""
