"""The operators at the end of chains."""
