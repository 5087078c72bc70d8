"""Segments, pools, buffers and files: the twin of `rust/memory`."""
