"""MessageRouter: dispatches messages of TaskExecutors to their handlers by a table.

A `Route` names for each type of message its owner, the thread that handles it, and the handler.
Messages that change the state of jobs are handled in the main thread, in the order of their
connection; the others by the connection's own thread, so that logs and metrics never wait for it.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from penstock.rpc import messages
from penstock.rpc.connection import Connection

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from penstock.jobmaster.main_thread import QueueUser
    from penstock.jobmaster.workers.resource_manager import TaskExecutorGateway

logger = logging.getLogger(__name__)

M = TypeVar("M")


class Thread(Enum):
    """The thread that handles a message."""

    CONNECTION = "the connection's"
    MAIN = "the main thread"


@dataclass(frozen=True)
class Route(Generic[M]):
    """One line of the table.

    Attributes:
        message: The type of the messages.
        owner: The class whose state they change.
        thread: The thread that handles them.
        handle: The handler.
        needs_registration: Whether the worker must be registered, and not be declared lost.
    """

    message: type[M]
    owner: type[object]
    thread: Thread
    handle: Callable[[WorkerConnection, M], object]
    needs_registration: bool = True


class MessageRouter:
    """Passes received messages to their handlers."""

    def __init__(
        self,
        routes: Iterable[Route[Any]],
        main_thread: QueueUser,
        registered: Mapping[str, TaskExecutorGateway],
    ) -> None:
        """Build the table.

        Args:
            routes: One for each type of `messages.ToDriver`.
            main_thread: Posts to the main thread; blocks while too many messages wait.
            registered: The workers that are registered and not lost, by executor id.
        """
        self.table: dict[type[Any], Route[Any]] = {route.message: route for route in routes}
        self._main_thread = main_thread
        self._registered = registered

    def received(self, worker: WorkerConnection, received: Sequence[messages.ToDriver]) -> None:
        """Handle messages in the connection's thread, and post those for the main thread."""
        for_main: list[messages.ToDriver] = []
        for message in received:
            route = self.table[type(message)]
            if route.thread is Thread.CONNECTION:
                route.handle(worker, message)
            else:
                for_main.append(message)
        if for_main:
            self._main_thread.post(lambda: self._handle_all(worker, for_main))

    def _handle_all(self, worker: WorkerConnection, received: Iterable[messages.ToDriver]) -> None:
        for message in received:
            self.handle(worker, message)

    def handle(self, worker: WorkerConnection, message: messages.ToDriver) -> None:
        """Handle one message in the main thread."""
        route = self.table[type(message)]
        if route.needs_registration:
            executor = worker.executor
            if executor is None:
                logger.warning(
                    "dropped %s: %s before it registered", worker, type(message).__name__
                )
                worker.connection.close("not registered")
                return
            if self._registered.get(executor.executor_id) is not executor:
                return  # declared lost; its messages are about attempts that were failed
        route.handle(worker, message)


class WorkerConnection:
    """A control connection and the worker that registered over it."""

    def __init__(
        self,
        sock: socket.socket,
        address: str,
        on_messages: Callable[[WorkerConnection, list[messages.ToDriver]], None],
        on_closed: Callable[[WorkerConnection, str], None],
    ) -> None:
        """Create a connection; `connection.start` begins to read.

        Args:
            sock: The socket, authenticated.
            address: The worker's address, for logs.
            on_messages: Receives messages, in the connection's thread.
            on_closed: Called once with the reason, after the last message.
        """
        self.executor: TaskExecutorGateway | None = None
        self._address = address
        self.connection = Connection(
            sock,
            messages.driver_decoder(),
            lambda received: on_messages(self, received),
            lambda reason: on_closed(self, reason),
            f"worker {address}",
        )

    def __str__(self) -> str:
        return self._address

    @property
    def executor_id(self) -> str:
        """Return the id of the executor; empty before it has registered."""
        return "" if self.executor is None else self.executor.executor_id

    @property
    def gateway(self) -> TaskExecutorGateway:
        """Return the registered executor.

        Raises:
            AssertionError: None is registered; routes that need registration exclude that.
        """
        assert self.executor is not None, f"{self} is registered"
        return self.executor
