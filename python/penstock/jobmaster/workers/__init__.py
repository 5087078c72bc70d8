"""TaskExecutors as the driver sees them: starts, losses, heartbeats, messages and output."""
