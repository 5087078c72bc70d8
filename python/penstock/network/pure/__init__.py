"""The whole data plane in plain Python: the reference, and the twin that needs no extension.

It speaks the same bytes on the wire as the native one and keeps the same interfaces, so a
TaskExecutor of either kind exchanges data with the other.
"""
