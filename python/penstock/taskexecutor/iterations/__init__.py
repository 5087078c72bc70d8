"""Iterations: what flows back from the tail of a loop to its head, and when the loop ends."""
