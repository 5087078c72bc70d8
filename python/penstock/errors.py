"""All exceptions that penstock itself raises.

The native extensions raise these classes too, so user code catches Python classes whichever
runtime is in use.  An exception of a user's own function is not wrapped: it reaches the caller
of ``execute()`` as itself.
"""

from penstock.user_location import user_location


class PenstockError(Exception):
    """Base of all exceptions that penstock raises by itself."""


class InvalidProgramError(PenstockError, TypeError, ValueError):
    """The program cannot become a job: the message names the call and how to mend it.

    Attributes:
        location: The line of the user's program that is to blame, or None.
    """

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        self.location = user_location()

    def __str__(self) -> str:
        message = super().__str__()
        return message if self.location is None else f"{message}\n  at {self.location}"


class WrongArgumentError(InvalidProgramError, AttributeError):
    """An argument is of another kind than the call needs; PyFlink misses an attribute of it."""


class ConfigurationError(PenstockError, ValueError):
    """A configuration value is missing, malformed or contradicts another."""


class JobExecutionError(PenstockError):
    """A job failed for a reason that is not an exception of a user function."""


class JobCancelledError(JobExecutionError):
    """The job was cancelled before it finished."""


class RescalingError(PenstockError):
    """A job cannot go on with another parallelism; it goes on with the one that it has."""


class NoResourceAvailableError(JobExecutionError):
    """The slots that the job needs were not there in time; names asked for and given."""


class QueueFullError(PenstockError):
    """Something asks for more than can be worked off; names who does, and its bound."""


class MessageTooLargeError(PenstockError, ValueError):
    """A control message is larger than a frame may be; names what it holds, and both sizes."""


class TaskExecutorLostError(JobExecutionError):
    """A TaskExecutor ended or stopped answering; names it and what is known of the reason."""


class LeadershipLostError(JobExecutionError):
    """Another driver runs the jobs of this one's `high-availability.cluster-id`, or may do so."""


class CancelTaskError(PenstockError):
    """Raised inside a task to unwind it quietly: its network resources were closed."""


class CheckpointError(PenstockError):
    """A checkpoint or savepoint that was asked for was not taken; says why."""


class CheckpointFailedJobError(JobExecutionError):
    """The job failed because its checkpoints, or its last savepoint, did."""


class StateReadError(PenstockError):
    """State of a running job cannot be read; says why."""


class CheckpointStorageError(PenstockError, OSError):
    """A checkpoint's file or directory cannot be written, read or deleted; names it."""


class CorruptCheckpointError(CheckpointStorageError):
    """A file of a checkpoint differs from what was written; names it and what is wrong with it."""


class NetworkError(PenstockError):
    """Base of the data plane's errors."""


class InsufficientBuffersError(NetworkError):
    """The network buffer pool cannot serve a request; names required, available and total."""


class PartitionConnectionError(NetworkError):
    """The connection to a producer was refused or lost; names the peer."""


class PartitionNotFoundError(NetworkError):
    """The producer does not know the partition, and waiting for it did not help."""


class ProducerFailedError(NetworkError):
    """The producing task failed; the message carries its cause."""


class CorruptStreamError(NetworkError):
    """Bytes that should be a record, an event or a frame are not one."""


class AuthenticationError(PenstockError):
    """A peer could not prove that it holds the job's token."""


class JobCodeError(PenstockError):
    """A worker cannot load the code of a job, which a restart does not change; says why."""


class DependencyError(PenstockError):
    """Code or a file that the job needs cannot be had on a worker; names it, and what to do."""


class SerializationError(PenstockError, ValueError):
    """A value does not fit its declared type; names value, type and position."""


class ValueCopyError(PenstockError, TypeError):
    """A value that must be copied cannot be; names its class, and what to do."""


class JvmOnlyError(PenstockError, NotImplementedError):
    """The call makes no sense without a JVM; the message says what to use instead."""


class IllegalStateError(PenstockError, RuntimeError):
    """A call that the object's present state forbids: a defect of the caller, not of the data."""


class StateBackendError(PenstockError, OSError):
    """Keyed state cannot be kept where it should be; names the place, and what failed."""


class FormatError(PenstockError, ValueError):
    """Bytes are no record of the declared type, or the other way; names the field and the bytes.

    From a file or a topic, a note or the message names the place.
    """


class UndecodableRecordError(FormatError):
    """A record of a source that no restart can read; it fails the job at once."""


class SourceError(PenstockError, OSError):
    """A source cannot be read; names what was to be read, and where."""


class TemporaryFileError(PenstockError, OSError):
    """A file for what exceeds memory cannot be written; names the file, and what to do."""


class SinkError(PenstockError, OSError):
    """A sink cannot be written; names the place, and what to do."""
