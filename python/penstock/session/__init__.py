"""Clusters that jobs come to and leave: the jobmanager's process, and the program's end of it."""
