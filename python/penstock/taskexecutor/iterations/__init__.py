"""Iterations: the feedback from the tail of a loop to its head, and the end of the loop."""
