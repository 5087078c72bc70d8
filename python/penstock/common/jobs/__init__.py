"""Contracts between a job's program and its cluster: gateway, progress, results, state."""
