"""All exceptions that penstock itself raises.

The native extensions raise these classes too, so user code catches Python classes whichever
runtime is in use.  An exception of a user's own function is not wrapped: it reaches the caller
of ``execute()`` as itself.
"""

from penstock.user_location import user_location


class PenstockError(Exception):
    """Base of all exceptions that penstock itself raises."""


class InvalidProgramError(PenstockError, TypeError, ValueError):
    """The program is not a valid job: the message names the call and the remedy.

    Attributes:
        location: The line of the user's program that causes the error, or None.
    """

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        self.location = user_location()

    def __str__(self) -> str:
        message = super().__str__()
        return message if self.location is None else f"{message}\n  at {self.location}"


class WrongArgumentError(InvalidProgramError, AttributeError):
    """An argument has the wrong type; PyFlink raises an AttributeError in such a call."""


class ConfigurationError(PenstockError, ValueError):
    """A configuration value is missing, malformed or contradicts another."""


class JobExecutionError(PenstockError):
    """A job failed for a reason that is not an exception of a user function."""


class JobCancelledError(JobExecutionError):
    """The job was cancelled before it finished."""


class RescalingError(PenstockError):
    """A job cannot change its parallelism, and continues with the present one."""


class NoResourceAvailableError(JobExecutionError):
    """The job did not get its slots in time; names the requested and the provided number."""


class QueueFullError(PenstockError):
    """A queue is full; names the user of the queue, and its bound."""


class MessageTooLargeError(PenstockError, ValueError):
    """A control message exceeds the size of a frame; names its content, and both sizes."""


class TaskExecutorLostError(JobExecutionError):
    """A TaskExecutor ended or stopped answering; names it and the known reason."""


class LeadershipLostError(JobExecutionError):
    """Another driver runs, or may run, the jobs of this `high-availability.cluster-id`."""


class CancelTaskError(PenstockError):
    """Raised inside a task to unwind it quietly: its network resources were closed."""


class CheckpointError(PenstockError):
    """A requested checkpoint or savepoint failed; says why."""


class CheckpointFailedJobError(JobExecutionError):
    """The job failed because its checkpoints, or its last savepoint, failed."""


class StateReadError(PenstockError):
    """State of a running job cannot be read; says why."""


class CheckpointStorageError(PenstockError, OSError):
    """A checkpoint's file or directory cannot be written, read or deleted; names it."""


class CorruptCheckpointError(CheckpointStorageError):
    """A file of a checkpoint is damaged; names the file and the damage."""


class NetworkError(PenstockError):
    """Base of the data plane's errors."""


class InsufficientBuffersError(NetworkError):
    """Network buffers or managed memory do not suffice; names required, available and total."""


class PartitionConnectionError(NetworkError):
    """The connection to a producer was refused or lost; names the peer."""


class PartitionNotFoundError(NetworkError):
    """The producer does not know the partition, even after a wait."""


class ProducerFailedError(NetworkError):
    """The producing task failed; the message carries its cause."""


class CorruptStreamError(NetworkError):
    """Bytes are not a valid record, event or frame."""


class AuthenticationError(PenstockError):
    """A peer could not prove that it holds the job's token."""


class JobCodeError(PenstockError):
    """A worker cannot load the code of a job, and a restart would not help; says why."""


class DependencyError(PenstockError):
    """A package, code or a file that is needed is missing; names it, and the remedy."""


class SerializationError(PenstockError, ValueError):
    """A value does not have its declared type; names value, type and position."""


class ValueCopyError(PenstockError, TypeError):
    """A value cannot be copied; names its class, and the remedy."""


class JvmOnlyError(PenstockError, NotImplementedError):
    """The call needs a JVM; the message names the replacement."""


class IllegalStateError(PenstockError, RuntimeError):
    """The object's present state forbids the call: an error of the caller, not of the data."""


class StateBackendError(PenstockError, OSError):
    """Keyed state cannot be stored; names the place, and the cause."""


class FormatError(PenstockError, ValueError):
    """Bytes cannot be decoded as the declared type, or a record not encoded; names the field.

    For a file or a topic, the message or a note also names the position.
    """


class UndecodableRecordError(FormatError):
    """A record of a source cannot be read, even after a restart; it fails the job at once."""


class SourceError(PenstockError, OSError):
    """A source cannot be read; names the data and the place."""


class TemporaryFileError(PenstockError, OSError):
    """A temporary file cannot be written; names the file, and the remedy."""


class SinkError(PenstockError, OSError):
    """A sink cannot be written; names the place, and the remedy."""
