"""Outputs of a task: the twin of `rust/network/src/partition`."""
