"""Windows: the operator, its state for merging windows, and the calls of user functions."""
