"""Formats of files and messages: schemas, rows and columns.

What programs import of them is in `penstock.datastream.formats`.
"""
