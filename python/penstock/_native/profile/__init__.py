"""The interpreter's stacks, for ``rust/profile``."""
