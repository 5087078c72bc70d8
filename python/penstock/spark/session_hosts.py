"""The taskexecutors of a session as Spark tasks: one plain Spark job with one task for each.

They host workers as those started by hand (`penstock taskexecutor`) do, so jobs of the session
share their slots.  A lost one is requested again as long as the session lives.
"""

import logging
import threading
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from penstock.common.options.cluster import SLOTS_PER_EXECUTOR
from penstock.rpc.control_credentials import ControlCredentials
from penstock.spark.host import attempt_number, read_to_the_end, spark_folders
from penstock.spark.session import (
    control_plane_options,
    refuse_copies,
    spark_context,
)
from penstock.taskexecutor.worker.host import TaskExecutorHost

logger = logging.getLogger(__name__)

FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 30.0
END_TIMEOUT_S: Final = 15.0


class SparkHosts:
    """Runs taskexecutors of a session on Spark until it is stopped."""

    def __init__(self, configuration: Mapping[str, str], slots: int) -> None:
        """Start Spark, with the session's options whose keys start with ``spark.``.

        Args:
            configuration: The session's options.
            slots: The total of all taskexecutors; each has ``taskmanager.numberOfTaskSlots``,
                or one.

        Raises:
            ConfigurationError: pyspark is not installed, or Spark's options prevent hosting.
        """
        self._context, _ = spark_context(configuration)
        try:
            refuse_copies(self._context)
            defaults = control_plane_options(self._context, configuration)
        except BaseException:
            self._context.stop()
            raise
        #: The session's options, including those derived from Spark's.
        self.configuration = defaults | dict(configuration)
        each = SLOTS_PER_EXECUTOR.read(configuration) or 1
        self._slots = [min(each, slots - taken) for taken in range(0, slots, each)]
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self, address: tuple[str, int], token: str) -> None:
        """Request all taskexecutors from Spark; return at once.

        Args:
            address: The address at which Spark's executors reach the session.
            token: The session's token.
        """
        from pyspark import InheritableThread

        for slots in self._slots:
            task = HostingSession(address, token, slots)
            thread = InheritableThread(target=self._host, args=(task,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def retire(self) -> None:
        """Stop replacing lost taskexecutors: the session ends."""
        self._stopping.set()

    def stop(self) -> None:
        """Stop Spark, and with it the taskexecutors that the session has not ended."""
        self._stopping.set()
        for thread in self._threads:
            thread.join(END_TIMEOUT_S)
        self._context.stop()

    def _host(self, task: "HostingSession") -> None:
        pause_s = FIRST_PAUSE_S
        while not self._stopping.is_set():
            group = f"penstock-session-{uuid.uuid4().hex[:8]}"
            try:
                self._context.setJobGroup(group, "penstock taskexecutor", interruptOnCancel=True)
                codes = self._context.parallelize([0], 1).mapPartitions(task).collect()
                how = f"it ended with {codes[0]}" if codes else "Spark lost the executor"
            except Exception as error:  # logged: an error of Spark ends only this one
                how = str(error)[:2000]
            if not self._stopping.is_set():
                logger.warning("lost a taskexecutor on Spark (%s); requesting another one", how)
                self._stopping.wait(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


class HostingSession:
    """The work of a session's Spark task; the token is in its code, as in `spark.host`."""

    def __init__(self, address: tuple[str, int], token: str, slots: int) -> None:
        self._address = address
        self._token = token
        self._slots = slots

    def __call__(self, elements: Iterable[object]) -> Iterator[Any]:
        """Host workers until the session ends it; yield the exit code."""
        read_to_the_end(elements)
        if attempt_number() > 0:
            return  # the loss is known, and another Spark job requests the next one
        host = TaskExecutorHost(
            lambda: self._address,
            ControlCredentials.of_session(self._token.encode(), insists=False),
            self._slots,
            temp_dirs=spark_folders(),
        )
        yield host.run()
