"""Checkpoint storage: state handles, directory layout, metadata, file systems."""
