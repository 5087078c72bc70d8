"""Clusters that outlive their jobs: the jobmanager's process, and the program's end of it."""
