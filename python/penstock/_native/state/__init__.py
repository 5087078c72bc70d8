"""Keyed state in memory: tables, their snapshots, and the views of functions."""
