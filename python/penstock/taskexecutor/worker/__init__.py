"""The worker process: its launch, its slots, what it does for all tasks."""
