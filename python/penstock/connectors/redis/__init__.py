"""Redis: a sink, and lookups."""
