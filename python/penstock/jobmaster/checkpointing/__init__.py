"""Checkpoints of a job, beside its scheduler: sans-I/O, from events and the time to actions."""
