"""Aggregates of groups without windows, their functions and their state."""
