"""Checkpoints of a job, beside its scheduler: sans-I/O, an event and the time in, actions out."""
