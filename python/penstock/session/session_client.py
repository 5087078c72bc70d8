"""The program's end of a connection to a session."""

from __future__ import annotations

import contextlib
import socket
from typing import IO, TYPE_CHECKING, Any, Final, Self, TypeVar, cast

from penstock import errors
from penstock.errors import AuthenticationError, ConfigurationError, JobExecutionError
from penstock.rpc import session_messages as messages
from penstock.rpc.blob_messages import BlobChunk
from penstock.rpc.client import dial
from penstock.rpc.frames import read_frame, write_frame
from penstock.rpc.host_messages import own_versions
from penstock.rpc.message import encode_message
from penstock.rpc.messages import CODE_CHUNK_BYTES
from penstock.session.files import TOKEN_VARIABLE
from penstock.session.keeping_alive import keep_alive

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.dependencies.manifest import BlobKey
    from penstock.rpc.message import Message
    from penstock.session.files import SessionAddress

DIAL_TIMEOUT_S: Final = 3.0

A = TypeVar("A")


class SessionClient:
    """One connection; used by one thread at a time.

    Attributes:
        session: The session's address.
        keeps_jobs: Whether the session's next jobmanager resumes its jobs.
        is_lost: Whether the connection has broken.
    """

    def __init__(self, session: SessionAddress) -> None:
        """Connect.

        Raises:
            ConfigurationError: Nobody answers, the token is not the session's, or it runs
                another version of penstock or Python.
        """
        self.session = session
        self.is_lost = False
        address = (session.host, session.port)
        where = f"{session.host}:{session.port}"
        called = "" if session.name == where else f"{session.name} "
        try:
            self._socket = dial(address, session.credentials, messages.ROLE_CLIENT, DIAL_TIMEOUT_S)
        except AuthenticationError as error:
            raise ConfigurationError(
                f"the session {called}at {where} and this program do not trust each other: "
                f"{error}; set {TOKEN_VARIABLE} to the session's token, or pass it as the argument "
                "token"
            ) from error
        except OSError as error:
            raise ConfigurationError(
                f"the session {called}does not answer at {where}: {error}; check that its "
                "jobmanager runs there"
            ) from error
        self._decoder = messages.to_client_decoder()
        keep_alive(self._socket)
        try:
            accepted = self.ask(messages.ClientHello(own_versions()), messages.ClientAccepted)
            self.keeps_jobs = accepted.keeps_jobs
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; any thread."""
        with contextlib.suppress(OSError):  # the session closed first
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def send(self, message: Message) -> None:
        """Send a message.

        Raises:
            OSError: The connection is lost.
        """
        write_frame(self._socket, encode_message(message))

    def receive(self) -> messages.ToClient:
        """Return the session's next message.

        Raises:
            JobExecutionError: It is gone.
        """
        try:
            body = read_frame(self._socket)
        except (OSError, errors.CorruptStreamError) as error:
            raise JobExecutionError(self._lost(str(error))) from error
        if body is None:
            raise JobExecutionError(self._lost("it closed the connection"))
        return self._decoder.decode(body)

    def ask(self, message: Message, kind: type[A]) -> A:
        """Send a request, and return the answer.

        Raises:
            PenstockError: The session rejects it, or is gone.
        """
        try:
            self.send(message)
        except OSError as error:
            raise JobExecutionError(self._lost(str(error))) from error
        return self.answer(kind)

    def answer(self, *kinds: type[A]) -> A:
        """Return the session's answer.

        Raises:
            PenstockError: It rejects the request, or is gone.
        """
        answer: Any = self.receive()
        if isinstance(answer, messages.Refused):
            raise named_error(answer.kind, answer.reason)
        if not isinstance(answer, kinds):
            raise JobExecutionError(
                f"the session {self.session.name} sent an unexpected {type(answer).__name__}"
            )
        return answer

    def await_end(self) -> None:
        """Wait until the session has closed the connection and released everything."""
        with contextlib.suppress(JobExecutionError):
            while True:
                self.receive()

    def put(self, write: Callable[[IO[bytes]], object]) -> BlobKey:
        """Send the bytes that ``write`` writes.

        Raises:
            PenstockError: The session cannot store them, or is gone.
        """
        try:
            self.send(messages.PutBlob())
            sink = _Sink(self)
            write(cast("IO[bytes]", sink))
            sink.finish()
        except OSError as error:
            raise JobExecutionError(self._lost(str(error))) from error
        return self.answer(messages.BlobKept).key

    def _lost(self, reason: str) -> str:
        self.is_lost = True
        return f"the connection to the session {self.session.name} is lost: {reason}"


class _Sink:
    def __init__(self, client: SessionClient) -> None:
        self._client = client
        self._buffer = bytearray()

    def write(self, data: bytes) -> int:
        self._buffer += data
        while len(self._buffer) > CODE_CHUNK_BYTES:
            self._client.send(BlobChunk(bytes(self._buffer[:CODE_CHUNK_BYTES]), False))
            del self._buffer[:CODE_CHUNK_BYTES]
        return len(data)

    def finish(self) -> None:
        self._client.send(BlobChunk(bytes(self._buffer), True))


def named_error(kind: str, text: str) -> Exception:
    """Return the penstock exception with that name; a JobExecutionError if there is none."""
    found = getattr(errors, kind, None)
    if isinstance(found, type) and issubclass(found, errors.PenstockError):
        return found(text)
    return JobExecutionError(text)
