"""Tables of Delta Lake: a sink, and a source of snapshots and of changes."""
