"""Checkpoints in a task: barriers at its inputs, its snapshots and reports."""
