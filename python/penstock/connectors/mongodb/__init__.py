"""MongoDB: documents of a collection, and their changes."""
