"""The codecs and keys in plain Python: the reference, and the twins of the native ones."""
