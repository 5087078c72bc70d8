"""Batches of records as Arrow columns, on their way between operators.

``column_batch`` is the batch, ``batch_schema`` the Arrow schema of a type of elements,
``batch_bytes`` the byte form of a batch in an exchange, and ``partition`` the split of a batch
among the owners of its keys.  Importing this room does not import pyarrow.
"""
