"""Serialization of values for the network, state, savepoints and collected results.

Types become schemas (``type_schema``), schemas become codecs (``codec``): the native ones, or
their twins in ``pure``, which write the same bytes.
"""
