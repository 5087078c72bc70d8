"""Windows: the operator, its state for merging windows, and the way to user functions."""
