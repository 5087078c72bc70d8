"""The worker: TaskExecutor, Task, StreamTask, operators and their state."""
