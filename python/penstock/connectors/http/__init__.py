"""HTTP: a source of pages, and a sink."""
