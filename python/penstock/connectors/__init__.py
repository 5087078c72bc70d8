"""Connectors: a folder for each system, with its builders, readers, writers and committers.

What programs import of them is in `penstock.datastream.connectors`.
"""
