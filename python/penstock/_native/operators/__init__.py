"""Operators, which touch each record, and their timers and windows."""
