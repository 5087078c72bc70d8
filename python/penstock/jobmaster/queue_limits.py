"""Limits of the driver's queues, as sums over their users.

A thread that keeps up never reaches one.  At its limit a user waits if it can; otherwise it gets
a `QueueFullError` that names it.
"""

from __future__ import annotations

from typing import Final

from penstock.graph.key_groups import UPPER_BOUND_MAX_PARALLELISM as MAX_PARALLELISM

# ---- the main thread -------------------------------------------------------------------------

MAX_CALLERS: Final = 1024
"""Calls of programs and requests of watchers: each blocks one thread or request until its
answer, and times out after 10 s.
"""

MAX_MESSAGE_BATCHES: Final = 1024
"""Batches of messages of TaskExecutors, of up to 64 (`rpc.connection.MAX_RECEIVED_MESSAGES`).

Their connections wait, so a smaller limit would cost time and a larger one only memory.
"""

MAX_WORKERS: Final = 16_384
"""TaskExecutors that may start, end or be inspected at the same moment."""

EVENTS_OF_A_WORKER: Final = 4
"""The end of its process, the loss of its connection, missing heartbeats, an overdue report."""

MAX_EVENTS: Final = MAX_WORKERS * EVENTS_OF_A_WORKER
"""Events of one kind of all TaskExecutors, which cannot be held back."""

CALLS_OF_A_SUBTASK: Final = 2
"""The answer of the storage about its state, and a timer or failure that concerns it."""

MAX_CALLS_OF_A_JOB: Final = MAX_PARALLELISM * CALLS_OF_A_SUBTASK
"""Calls posted by the parts of one job."""

# ---- the thread of a job's storage -----------------------------------------------------------

STEPS_OF_A_SUBTASK: Final = 2
"""Deletion of a report's state after the checkpoint has ended; a report may arrive twice."""

MAX_CHECKPOINT_STEPS: Final = MAX_PARALLELISM * STEPS_OF_A_SUBTASK
"""Steps of the checkpoints of one job."""

# ---- the thread of a source's enumerator -----------------------------------------------------

MESSAGES_OF_A_READER: Final = 2
"""A reader registers and requests a split; it requests another one after the answer."""

MAX_READER_MESSAGES: Final = MAX_PARALLELISM * MESSAGES_OF_A_READER
"""Messages of the readers of one source."""

MAX_ENUMERATOR_CALLS: Final = MAX_PARALLELISM * MESSAGES_OF_A_READER
"""Calls of the enumerator itself: for each subtask that is reset, and for each checkpoint."""
