"""Inputs of a task: the twin of `rust/network/src/gate`."""
