"""Connectors: a folder for each system, with its builders, readers, writers and committers.

`penstock.datastream.connectors` exports the classes that programs use.
"""
