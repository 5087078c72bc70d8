"""What a task writes to: the twin of `rust/network/src/partition`."""
