"""Clusters that live as long as one job, and the local target."""
