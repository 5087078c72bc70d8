"""Formats of files and messages: schemas, rows and columns.

`penstock.datastream.formats` exports the classes that programs use.
"""
