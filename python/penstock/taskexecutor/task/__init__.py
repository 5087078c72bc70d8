"""One subtask: its thread, mailbox, operator chain and what operators see of it."""
