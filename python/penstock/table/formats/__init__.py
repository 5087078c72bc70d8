"""Formats of tables: messages and lines as rows with their kinds, and back."""
