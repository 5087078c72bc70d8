"""Which values are copied, and where, so that nobody sees the changes of another."""
