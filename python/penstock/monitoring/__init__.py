"""Watching a cluster: the REST interface, reporters, archives of jobs, the progress line."""
