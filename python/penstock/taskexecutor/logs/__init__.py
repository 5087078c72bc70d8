"""The log of user code: which operator and subtask speaks, and how its words reach the driver."""
