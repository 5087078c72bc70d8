"""Watermarks and timers."""
