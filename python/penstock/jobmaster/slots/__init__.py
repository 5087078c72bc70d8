"""The slots of a job: offered by TaskExecutors, shared by tasks, held in a pool."""
