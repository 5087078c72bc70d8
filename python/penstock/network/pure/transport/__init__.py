"""Connections between TaskExecutors: the twin of `rust/network/src/transport`."""
