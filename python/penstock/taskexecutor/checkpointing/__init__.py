"""Checkpoints in a task: barriers at its inputs, its snapshot, what it reports."""
