"""The rows of a PostgreSQL table and their changes."""
