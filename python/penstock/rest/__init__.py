"""The REST interface of a cluster: Flink's paths and JSON, so that tools made for Flink work.

`server` is imported only where the interface is on; it alone needs the web framework.
"""
