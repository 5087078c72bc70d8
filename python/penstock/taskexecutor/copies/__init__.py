"""Copies of values, so that functions do not see each other's changes."""
