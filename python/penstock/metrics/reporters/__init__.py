"""Reporters, which send a cluster's metrics to other systems."""
