"""Bounds of the driver's queues, as sums of their users.

A thread that keeps up never reaches one.  Beyond its bound a user waits if it can, and gets a
`QueueFullError` that names it otherwise.
"""

from __future__ import annotations

from typing import Final

from penstock.graph.key_groups import UPPER_BOUND_MAX_PARALLELISM as MAX_PARALLELISM

# ---- the main thread -------------------------------------------------------------------------

MAX_CALLERS: Final = 1024
"""Programs that call, or requests of watchers: each has one thread or request that waits for its
answer, and gives up after 10 s."""

MAX_MESSAGE_BATCHES: Final = 1024
"""Batches of messages of TaskExecutors, of up to 64 (`rpc.connection.MAX_RECEIVED_MESSAGES`).

Their connections wait, so that a smaller bound would cost time and a larger one only memory.
"""

MAX_WORKERS: Final = 16_384
"""TaskExecutors that may start, end or be looked into at the same moment."""

EVENTS_OF_A_WORKER: Final = 4
"""The end of its process, the loss of its connection, missing heartbeats, an overdue report."""

MAX_EVENTS: Final = MAX_WORKERS * EVENTS_OF_A_WORKER
"""Events of one kind of all TaskExecutors, which nobody can hold back."""

CALLS_OF_A_SUBTASK: Final = 2
"""The answer of the storage about its state, and a timer or failure that concerns it."""

MAX_CALLS_OF_A_JOB: Final = MAX_PARALLELISM * CALLS_OF_A_SUBTASK
"""Calls that the parts of one job post."""

# ---- the thread of a job's storage -----------------------------------------------------------

STEPS_OF_A_SUBTASK: Final = 2
"""State of a checkpoint that is over is deleted for each report, which may come twice."""

MAX_CHECKPOINT_STEPS: Final = MAX_PARALLELISM * STEPS_OF_A_SUBTASK
"""Steps of the checkpoints of one job."""

# ---- the thread of a source's enumerator -----------------------------------------------------

MESSAGES_OF_A_READER: Final = 2
"""A reader registers and asks for a split; it asks again when it has an answer."""

MAX_READER_MESSAGES: Final = MAX_PARALLELISM * MESSAGES_OF_A_READER
"""Messages of the readers of one source."""

MAX_ENUMERATOR_CALLS: Final = MAX_PARALLELISM * MESSAGES_OF_A_READER
"""Calls of the enumerator itself: of each subtask that is reset, and of each checkpoint."""
