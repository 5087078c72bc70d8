"""What a task reads from: the twin of `rust/network/src/gate`."""
