"""The log of user code: its operator and subtask, and its way to the driver."""
