"""Checkpoint storage: handles of state, layout, metadata, file systems."""
