"""RedisSink and RedisLookup: send commands to Redis, and look up values in it (beyond PyFlink)."""

from __future__ import annotations

import asyncio
import logging
import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import SplitResult, urlsplit

from penstock.common.calls.argument_kinds import checks_arguments
from penstock.common.packages.optional_library import optional_library
from penstock.connectors.change_rows import OldRows
from penstock.connectors.writer_sink import PythonSink, SinkWriter, WriterInitContext
from penstock.datastream.functions.asynchronous import AsyncFunction
from penstock.errors import (
    InvalidProgramError,
    PenstockError,
    SinkError,
    SourceError,
)
from penstock.external.background import ServerThreads

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Sequence

    from penstock.common.composite_types import RowTypeInfo
    from penstock.connectors.redis.hashes import RedisHashes

__all__ = ["RedisLookup", "RedisSink"]

logger = logging.getLogger(__name__)

#: The path of a URL: empty, or the number of a database.
_DATABASE: Final = re.compile(r"/?|/[0-9]+")

#: Types of the parts of a command.
_PARTS: Final = (str, bytes, int, float)


@checks_arguments
class RedisSink(PythonSink[Any]):
    """Executes a command for each record, at least once, in batches.

    Before each checkpoint all earlier commands were executed.  After a failure commands are
    executed again: those that set the value of a key (``SET``, ``HSET``, ``DEL``, ``ZADD``) have
    the same result as in a job without failures, those that count or append do not.
    """

    def __init__(
        self,
        url: str,
        command: Callable[[Any], Sequence[Any]],
        *,
        batch_size: int = 1000,
        max_retries: int = 5,
        retry_delay_ms: int = 500,
        timeout_ms: int = 10_000,
    ) -> None:
        """Create a sink.

        Args:
            url: ``redis://user:password@host:port/database``, ``rediss://…`` or ``unix://path``.
            command: Function that returns the parts of a record's command: ``("SET", key, value)``.
            batch_size: The largest number of commands that are sent together.
            max_retries: Number of retries of a batch while the server is unavailable.
            retry_delay_ms: Delay before the first retry; doubled before each further one.
            timeout_ms: Timeout of the connection and of each response.

        Raises:
            InvalidProgramError: An argument is invalid.
            DependencyError: The package redis is not installed.
        """
        super().__init__()
        _check_batch_size(batch_size)
        self._server = _Server("RedisSink", url, max_retries, retry_delay_ms, timeout_ms)
        self._command = _callable(command, "RedisSink", "command")
        self._batch_size = batch_size

    @staticmethod
    def upsert(
        url: str,
        schema: RowTypeInfo,
        key: Sequence[str],
        *,
        prefix: str = "",
        batch_size: int = 1000,
        max_retries: int = 5,
        retry_delay_ms: int = 500,
        timeout_ms: int = 10_000,
    ) -> PythonSink[Any]:
        """Return a sink that applies changes of rows to hashes, one for each key.

        ``+I`` and ``+U`` set the fields of the hash, and delete those that are None; ``-D`` deletes
        the hash, as does ``-U`` unless a row with the same key follows.  The changes of a key go to
        one subtask, in order.  Repeated changes result in the same hashes.

        Args:
            url: As for the constructor.
            schema: A row type: the fields of the hashes.
            key: The key columns; the Redis key is the prefix and their texts, joined by colons.
            prefix: The prefix of the Redis keys, as ``orders:``.
            batch_size: The largest number of rows that are sent together.
            max_retries: As for the constructor.
            retry_delay_ms: As for the constructor.
            timeout_ms: As for the constructor.

        Raises:
            InvalidProgramError: An argument is invalid.
            DependencyError: The package redis is not installed.
        """
        from penstock.connectors.redis.hashes import RedisHashes

        _check_batch_size(batch_size)
        server = _Server("RedisSink", url, max_retries, retry_delay_ms, timeout_ms)
        return _HashSink(server, RedisHashes(schema, key, prefix), batch_size)

    def create_writer(self, context: WriterInitContext) -> SinkWriter[Any]:
        """Create the writer of a subtask, which connects on its first request."""
        del context
        return _RedisWriter(self._server, self._command, self._batch_size)


@checks_arguments
class RedisLookup(AsyncFunction[Any, Any]):
    """Queries Redis for each record, for `AsyncDataStream.ordered_wait` or ``unordered_wait``."""

    def __init__(
        self,
        url: str,
        command: Callable[[Any], Sequence[Any]],
        result: Callable[[Any, Any], Any],
        *,
        connections: int = 8,
        max_retries: int = 5,
        retry_delay_ms: int = 500,
        timeout_ms: int = 10_000,
    ) -> None:
        """Create a function.

        Args:
            url: As for `RedisSink`.
            command: Function that returns the parts of a record's command: ``("GET", key)``.
            result: Function that returns the output for the record and the response, which is None,
                a text, a number, or a list or dictionary of these.
            connections: Number of concurrent requests of a subtask.
            max_retries: Number of retries of a command while the server is unavailable.
            retry_delay_ms: Delay before the first retry; doubled before each further one.
            timeout_ms: Timeout of the connection and of each response.

        Raises:
            InvalidProgramError: An argument is invalid.
            DependencyError: The package redis is not installed.
        """
        if connections < 1:
            raise InvalidProgramError(f"RedisLookup: connections is at least 1, got {connections}")
        self._server = _Server("RedisLookup", url, max_retries, retry_delay_ms, timeout_ms)
        self._command = _callable(command, "RedisLookup", "command")
        self._result = _callable(result, "RedisLookup", "result")
        self._connections = connections
        self._threads: ServerThreads | None = None
        self._client: Any = None

    def open(self, runtime_context: Any) -> None:
        """Create the threads; each connects on its first request."""
        del runtime_context
        self._client = self._server.client()
        self._threads = ServerThreads("redis-lookup", self._connections)

    def close(self) -> None:
        """Close the connections."""
        if self._threads is not None:
            _close(self._threads, self._client)

    async def async_invoke(self, value: Any) -> list[Any]:
        """Return the records emitted for a record."""
        assert self._threads is not None, "opened"
        command = _parts(self._command(value), "RedisLookup")
        ask = partial(self._server.execute, self._client, [command], self._threads.closed)
        answers = await asyncio.wrap_future(self._threads.submit(ask))
        return [self._result(value, answers[0])]


class _HashSink(PythonSink[Any]):
    """Applies changes of rows to hashes."""

    def __init__(self, server: _Server, hashes: RedisHashes, batch_size: int) -> None:
        super().__init__()
        self._server = server
        self._hashes = hashes
        self._batch_size = batch_size

    def key_of_records(self) -> Callable[[Any], Any]:
        """Return the key selector, which keeps the changes of a key in order."""
        return self._hashes.key

    def create_writer(self, context: WriterInitContext) -> SinkWriter[Any]:
        """Create the writer of a subtask, which connects on its first request."""
        del context
        return _HashWriter(self._server, self._hashes, self._batch_size)


class _CommandWriter(SinkWriter[Any]):
    """Sends commands, and waits for the responses."""

    def __init__(self, server: _Server) -> None:
        self._server = server
        self._client: Any = server.client()
        self._threads = ServerThreads("redis-sink")

    def send(self, commands: list[tuple[Any, ...]]) -> None:
        """Send commands together.

        Raises:
            SinkError: The server refuses a command, or is unreachable for too long.
        """
        if commands:
            closed = self._threads.closed
            self._threads.call(partial(self._server.execute, self._client, commands, closed))

    def close(self) -> None:
        """Close the connection."""
        _close(self._threads, self._client)


class _RedisWriter(_CommandWriter):
    def __init__(
        self, server: _Server, command: Callable[[Any], Sequence[Any]], batch_size: int
    ) -> None:
        super().__init__(server)
        self._command = command
        self._batch_size = batch_size
        self._commands: list[tuple[Any, ...]] = []

    def write(self, element: Any, context: SinkWriter.Context) -> None:
        """Buffer a command; send the batch if it is full."""
        del context
        self._commands.append(_parts(self._command(element), "RedisSink"))
        if len(self._commands) >= self._batch_size:
            self.flush(False)

    def flush(self, end_of_input: bool) -> None:
        """Send the buffered commands, and wait for the responses."""
        del end_of_input
        self.send(self._commands)
        self._commands = []


class _HashWriter(_CommandWriter):
    """Writes the last change of each key in a batch."""

    def __init__(self, server: _Server, hashes: RedisHashes, batch_size: int) -> None:
        super().__init__(server)
        self._hashes = hashes
        self._batch_size = batch_size
        self._old = OldRows()
        self._last: dict[Any, Any] = {}

    def write(self, element: Any, context: SinkWriter.Context) -> None:
        """Buffer the last row of each key; send the batch if it is full."""
        del context
        self._keep(self._old.joined(element))
        if len(self._last) >= self._batch_size:
            self._send_last()

    def flush(self, end_of_input: bool) -> None:
        """Send the buffered rows, and wait for the responses."""
        del end_of_input
        self._keep(self._old.taken())
        self._send_last()

    def _keep(self, rows: list[Any]) -> None:
        for row in rows:
            self._last[self._hashes.key(row)] = row

    def _send_last(self) -> None:
        last, commands = self._last.items(), self._hashes.commands
        self.send([one for key, row in last for one in commands(key, row)])
        self._last = {}


def _close(threads: ServerThreads, client: Any) -> None:
    """Close connections; running commands are aborted."""
    threads.close(client.close, lambda: client.connection_pool.disconnect(inuse_connections=True))


class _Server:
    """A server, and the retries of commands."""

    def __init__(
        self, user: str, url: str, max_retries: int, retry_delay_ms: int, timeout_ms: int
    ) -> None:
        parts = _parts_of_url(user, url)
        for name, number, least in (
            ("max_retries", max_retries, 0),
            ("retry_delay_ms", retry_delay_ms, 0),
            ("timeout_ms", timeout_ms, 1),
        ):
            if number < least:
                raise InvalidProgramError(f"{user}: {name} is at least {least}, got {number}")
        self._user = user
        self._url = url
        self._shown = f"{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}{parts.path}"
        self._max_retries = max_retries
        self._retry_delay_ms = retry_delay_ms
        self._timeout_ms = timeout_ms
        try:
            self.client().connection_pool.make_connection()  # checks the options, does not connect
        except (TypeError, ValueError) as error:
            raise InvalidProgramError(
                f"{user}: the options after ? in the URL must be those of redis.from_url: {error}"
            ) from None

    def client(self) -> Any:
        """Create a client, which connects on its first command and does not retry."""
        library = redis_library(self._user)
        timeout_s = self._timeout_ms / 1000
        return library.Redis.from_url(
            self._url,
            decode_responses=True,
            socket_timeout=timeout_s,
            socket_connect_timeout=timeout_s,
            retry=library.retry.Retry(library.backoff.NoBackoff(), 0),
        )

    def execute(
        self, client: Any, commands: Sequence[tuple[Any, ...]], closed: threading.Event
    ) -> list[Any]:
        """Send commands together, and return their responses.

        Raises:
            SinkError, SourceError: The server refuses a command, or is unreachable for too long.
        """
        errors = redis_library(self._user).exceptions
        delay_ms = self._retry_delay_ms
        for tries_left in range(self._max_retries, -1, -1):
            try:
                with client.pipeline(transaction=False) as pipeline:
                    for command in commands:
                        pipeline.execute_command(*command)
                    answers: list[Any] = pipeline.execute(raise_on_error=False)
                # Only a replica that is to become the master is transient.
                refused = [a for a in answers if isinstance(a, errors.ReadOnlyError)]
                if refused:
                    raise refused[0]
            except errors.AuthenticationError as error:
                raise self._error(
                    f"rejects the credentials: {error}; set them in the URL, such as "
                    "redis://user:password@host or unix://path?username=user&password=password"
                ) from error
            except (errors.ConnectionError, errors.TimeoutError, errors.ReadOnlyError) as error:
                if tries_left == 0 or closed.is_set():
                    raise self._error(
                        f"is unreachable for {_named(commands)}, "
                        f"tried {self._max_retries + 1} times: "
                        f"{error}"
                    ) from error
                logger.warning(
                    "%s: Redis at %s is unreachable for %s: %s; trying again in %d ms",
                    self._user,
                    self._shown,
                    _named(commands),
                    error,
                    delay_ms,
                )
                closed.wait(delay_ms / 1000)
                delay_ms *= 2
            except errors.ResponseError as error:  # while connecting
                raise self._error(f"refuses the connection: {error}") from error
            else:
                break
        for command, answer in zip(commands, answers, strict=True):
            if isinstance(answer, Exception):
                raise self._error(f"refuses {_named([command])}: {answer}") from answer
        return answers

    def _error(self, what: str) -> PenstockError:
        kind = SinkError if self._user == "RedisSink" else SourceError
        return kind(f"{self._user}: Redis at {self._shown} {what}")


def _named(commands: Sequence[tuple[Any, ...]]) -> str:
    """Return the first command's name and key, without values, and the number of others."""
    first = " ".join(map(str, commands[0][:2]))
    return first if len(commands) == 1 else f"{first} and {len(commands) - 1} more"


def _parts_of_url(user: str, url: str) -> SplitResult:
    """Parse a server's URL; the library ignores parts that it does not understand.

    Raises:
        InvalidProgramError: The URL is invalid.
    """
    try:
        parts = urlsplit(url)
        shown = f"one of the scheme {parts.scheme!r}"
        if parts.scheme in ("redis", "rediss"):
            fits = parts.port != 0 and _DATABASE.fullmatch(parts.path) is not None
            shown += f" with the path {parts.path!r}"
        else:
            fits = parts.scheme == "unix" and bool(parts.netloc.rpartition("@")[2] + parts.path)
    except ValueError as error:
        parts, fits, shown = urlsplit(""), False, str(error)
    if not fits:
        # The rest of the URL may contain a password.
        raise InvalidProgramError(
            f"{user} takes a URL as redis://host:6379/0 with the number of a database, rediss://… "
            f"or unix://path, got {shown}"
        )
    return parts


def redis_library(used_by: str) -> Any:
    """Import the module ``redis``.

    Raises:
        DependencyError: The package is not installed.
    """
    # The package also imports its module of retries.
    return optional_library("redis", "redis", "redis", used_by)


def _check_batch_size(batch_size: int) -> None:
    if batch_size < 1:
        raise InvalidProgramError(f"RedisSink: batch_size is at least 1, got {batch_size}")


def _callable(given: Any, user: str, name: str) -> Any:
    if not callable(given):
        raise InvalidProgramError(f"{user} takes a function as {name}, got {given!r}")
    return given


def _parts(command: Any, user: str) -> tuple[Any, ...]:
    """Return the parts of a command.

    Raises:
        InvalidProgramError: The value is not a command.
    """
    is_command = isinstance(command, (tuple, list)) and len(command) > 0
    if not is_command or not all(
        isinstance(part, _PARTS) and not isinstance(part, bool) for part in command
    ):
        raise InvalidProgramError(
            f"{user}: a command must be a tuple of strings, bytes and numbers, as "
            f"('SET', key, value), "
            f"got {command!r}"
        )
    return tuple(command)
