"""Reporters: what carries a cluster's metrics to other systems."""
