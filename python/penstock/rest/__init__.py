"""The REST interface of a cluster: Flink's paths and JSON, so that tools made for Flink work.

`server` is imported only if the interface is enabled; it alone needs the web framework.
"""
