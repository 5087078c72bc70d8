"""Stateful stream processing with the semantics of Apache Flink and the API of PyFlink."""

__version__ = "0.1.0"
