"""State in memory: keyed state by key, operator state by subtask, broadcast state by both."""
