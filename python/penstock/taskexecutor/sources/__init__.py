"""The operators at the head of source tasks."""
