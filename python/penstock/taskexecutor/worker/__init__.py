"""The worker process: its launch, its slots, and the services for all tasks."""
