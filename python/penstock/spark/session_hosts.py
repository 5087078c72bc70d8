"""The taskexecutors of a session as Spark tasks: one plain Spark job with one task for each.

They are hosts of workers like those that are started by hand (`penstock taskexecutor`), so jobs of
the session share their slots.  One that is lost is asked for again as long as the session lives.
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
    """Has Spark run taskexecutors of a session, until it is stopped."""

    def __init__(self, configuration: Mapping[str, str], slots: int) -> None:
        """Start Spark, by the session's options whose keys begin with ``spark.``.

        Args:
            configuration: Of the session.
            slots: Of all taskexecutors; each has ``taskmanager.numberOfTaskSlots``, or one.

        Raises:
            ConfigurationError: pyspark is not installed, or Spark is set up in a way that hosts
                nobody.
        """
        self._context, _ = spark_context(configuration)
        try:
            refuse_copies(self._context)
            defaults = control_plane_options(self._context, configuration)
        except BaseException:
            self._context.stop()
            raise
        #: The session's options, with those that follow from Spark's.
        self.configuration = defaults | dict(configuration)
        each = SLOTS_PER_EXECUTOR.read(configuration) or 1
        self._slots = [min(each, slots - taken) for taken in range(0, slots, each)]
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self, address: tuple[str, int], token: str) -> None:
        """Ask Spark for all taskexecutors; return at once.

        Args:
            address: By which Spark's executors reach the session.
            token: The session's.
        """
        from pyspark import InheritableThread

        for slots in self._slots:
            task = HostingSession(address, token, slots)
            thread = InheritableThread(target=self._host, args=(task,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def retire(self) -> None:
        """The session ends: who is lost from now on is not asked for again."""
        self._stopping.set()

    def stop(self) -> None:
        """End Spark, and with it the taskexecutors that the session has not ended."""
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
            except Exception as error:  # said: whatever Spark raises ends this one alone
                how = str(error)[:2000]
            if not self._stopping.is_set():
                logger.warning("a taskexecutor on Spark is lost (%s); asked for again", how)
                self._stopping.wait(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


class HostingSession:
    """Work of a session's Spark task; the token is a part of its code, as in `spark.host`."""

    def __init__(self, address: tuple[str, int], token: str, slots: int) -> None:
        self._address = address
        self._token = token
        self._slots = slots

    def __call__(self, elements: Iterable[object]) -> Iterator[Any]:
        """Hosts workers until the session has it end; yields the exit code."""
        read_to_the_end(elements)
        if attempt_number() > 0:
            return  # the loss is known, and another Spark job asks for the next one
        host = TaskExecutorHost(
            lambda: self._address,
            ControlCredentials.of_session(self._token.encode(), insists=False),
            self._slots,
            temp_dirs=spark_folders(),
        )
        yield host.run()
