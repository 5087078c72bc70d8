"""Databases that SQLAlchemy, psycopg or sqlite3 reach: a sink, and lookups."""
