"""Codecs and keys in plain Python: the reference for, and the twins of, the native ones."""
