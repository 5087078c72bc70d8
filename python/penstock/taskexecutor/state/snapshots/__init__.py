"""Snapshots of state, in slices between records, and what they contain."""
