"""Where checkpoints and savepoints lie: handles of state, layout, metadata, file systems."""
