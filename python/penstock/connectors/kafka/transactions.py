"""Operations on transactions that another process began.

A transaction of a checkpoint is committed even if the process that wrote it has ended, and one that
will not be committed is aborted.  librdkafka supports neither, so these few requests go through
kafka-python.
"""

from __future__ import annotations

import logging
import re
import time
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock.common.packages.optional_library import optional_library
from penstock.connectors.kafka.admin import Admin
from penstock.errors import ConfigurationError, SinkError
from penstock.external.background import ServerThreads

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: The names of connection settings in librdkafka and in kafka-python.
_NAMES: Final = {
    "bootstrap.servers": "bootstrap_servers",
    "security.protocol": "security_protocol",
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
    "ssl.cipher.suites": "ssl_ciphers",
}

_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")

#: Transient errors: the coordinator is moving, loading, or still writing the last markers.
_PASSING: Final = frozenset({7, 14, 15, 16, 51})

_PAUSE_S: Final = 0.02

_NOT_FOUND: Final = 105


@dataclass(frozen=True)
class KafkaCommittable:
    """A transaction to commit.

    Attributes:
        transactional_id: Its transactional id.
        producer_id: The producer that wrote it.
        epoch: The epoch of the producer.
    """

    transactional_id: str
    producer_id: int
    epoch: int


class TransactionEndedError(SinkError):
    """A transaction has ended, but this request did not commit it."""


def admin_settings(settings: Mapping[str, str]) -> dict[str, Any]:
    """Convert librdkafka's settings to kafka-python's.

    Raises:
        ConfigurationError: A connection setting is unknown to kafka-python.
    """
    found: dict[str, Any] = {}
    for key, value in settings.items():
        if key in _NAMES:
            found[_NAMES[key]] = value
        elif key.startswith(("sasl.", "ssl.")) and key != "ssl.endpoint.identification.algorithm":
            raise ConfigurationError(
                f"KafkaSink: {key} is not supported with DeliveryGuarantee.EXACTLY_ONCE; supported "
                f"are {', '.join(name for name in _NAMES if name.startswith(('sasl.', 'ssl.')))}"
            )
    if found.get("sasl_mechanism", "PLAIN").upper() not in _MECHANISMS:
        raise ConfigurationError(
            f"KafkaSink: with DeliveryGuarantee.EXACTLY_ONCE sasl.mechanism is one of "
            f"{', '.join(_MECHANISMS)}, got {found['sasl_mechanism']}"
        )
    if "security_protocol" in found:
        found["security_protocol"] = found["security_protocol"].upper()
    found["ssl_check_hostname"] = (
        settings.get("ssl.endpoint.identification.algorithm", "https") != "none"
    )
    return found


class Transactions:
    """Requests to transaction coordinators, each of which is retried for ``max_block_s``.

    A thread makes the requests, so that a task can be cancelled meanwhile.
    """

    def __init__(self, settings: Mapping[str, Any], max_block_s: float) -> None:
        """Create a client, which connects at the first request.

        Raises:
            DependencyError: kafka-python is not installed.
        """
        admin = optional_library(
            "kafka.admin",
            "kafka-python",
            "kafka",
            "KafkaSink with DeliveryGuarantee.EXACTLY_ONCE",
        )
        if (messages := logging.getLogger("kafka")).level == logging.NOTSET:
            # It logs each connection and each search for a coordinator, at every checkpoint.
            messages.setLevel(logging.WARNING)
        self._kind: Any = admin.KafkaAdminClient
        self._settings_of_library = settings
        self._settings = admin_settings(settings)
        self._max_block_s = max_block_s
        self._admin: Any = None
        self._threads = ServerThreads("kafka-admin")

    def open_ones(self) -> list[str]:
        """Return the ids of all transactions that are neither committed nor aborted."""
        listed = self._try("list the transactions", lambda admin: admin.list_transactions())
        return [
            listing.transactional_id
            for listings in listed.values()
            for listing in listings
            if listing.state.value == "Ongoing"
        ]

    def describe(self, transactional_id: str) -> KafkaCommittable:
        """Describe the producer of this transaction.

        Raises:
            TransactionEndedError: The transaction is no longer open.
        """
        found = self._try(
            f"describe the transaction {transactional_id}",
            lambda admin: admin.describe_transactions([transactional_id]),
        )[transactional_id]
        if found.state.value != "Ongoing":
            raise TransactionEndedError(
                f"the transaction {transactional_id} is {found.state.value}: it was open "
                "for longer than transaction.timeout.ms, or another job uses the same "
                "transactional id prefix"
            )
        return KafkaCommittable(transactional_id, found.producer_id, found.producer_epoch)

    def abort(self, transactional_id: str, timeout_ms: int) -> None:
        """Abort the open transaction with this id, and fence its producer."""
        from kafka.protocol.producer import InitProducerIdRequest

        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=-1,
            producer_epoch=-1,
        )
        code = self._ask(f"abort the transaction {transactional_id}", transactional_id, request)
        if code:
            raise SinkError(f"cannot abort the transaction {transactional_id}: {_error_name(code)}")

    def commit(self, committable: KafkaCommittable) -> None:
        """Commit a transaction; a repeated commit has no effect.

        Raises:
            TransactionEndedError: It was aborted, or is no longer known.
            SinkError: The brokers reject the request.
        """
        from kafka.protocol.producer import EndTxnRequest

        name = committable.transactional_id
        request = EndTxnRequest(
            transactional_id=name,
            producer_id=committable.producer_id,
            producer_epoch=committable.epoch,
            committed=True,
            max_version=4,  # Later versions raise the epoch: a repeated commit would do harm.
        )
        code = self._ask(f"commit the transaction {name}", name, request)
        if code in (47, 48, 49, 90, _NOT_FOUND):
            raise TransactionEndedError(
                f"cannot commit the transaction {name}: {_error_name(code)}"
            )
        if code:
            raise SinkError(f"cannot commit the transaction {name}: {_error_name(code)}")

    def close(self) -> None:
        """End the connections."""
        self._threads.close(self._disconnect, self._cut_short)

    def _connected(self) -> Any:
        if self._admin is None:
            # kafka-python cannot tell a wrong password from unreachable brokers.
            settings = self._settings_of_library
            brokers = Admin(settings, "penstock-transactions", "KafkaSink", SinkError)
            with closing(brokers):
                brokers.topics(self._max_block_s, self._threads.closed.is_set)
            # In two steps, so that the constructor's wait for brokers can be interrupted, too.
            self._admin = self._kind.__new__(self._kind)
            try:
                self._admin.__init__(**self._settings)
            except BaseException:
                self._disconnect()
                raise
        return self._admin

    def _disconnect(self) -> None:
        admin, self._admin = self._admin, None
        if hasattr(admin, "_net"):
            if not hasattr(admin, "_closed"):
                admin._closed = False  # Its constructor failed; close() would leave its thread.
            admin.close()

    def _cut_short(self) -> None:
        """Interrupt the thread's wait, which then raises an error."""
        network = getattr(self._admin, "_net", None)
        if network is not None:
            network.stop()

    def _ask(self, what: str, transactional_id: str, request: Any) -> int:
        """Send a request to a transaction's coordinator, and return its error code, or 0."""
        deadline = time.monotonic() + self._max_block_s
        while True:
            code: int = self._try(what, lambda admin: _send(admin, transactional_id, request))
            if code not in _PASSING or time.monotonic() >= deadline:
                return code
            if code in (15, 16):
                # Its knowledge about coordinators is outdated.
                self._threads.call(self._disconnect)
            time.sleep(_PAUSE_S)

    def _try(self, what: str, action: Callable[[Any], Any]) -> Any:
        """Run an action in the thread; it is retried while no broker can be reached."""
        return self._threads.call(lambda: self._tried(what, action))

    def _tried(self, what: str, action: Callable[[Any], Any]) -> Any:
        import kafka.errors

        deadline = time.monotonic() + self._max_block_s
        while True:
            try:
                return action(self._connected())
            except kafka.errors.KafkaError as error:
                retriable = getattr(error, "retriable", False)
                is_over = time.monotonic() >= deadline or self._threads.closed.is_set()
                if not retriable or is_over:
                    servers = self._settings["bootstrap_servers"]
                    raise SinkError(
                        f"cannot {what} at the brokers {servers}: {type(error).__name__} {error}"
                    ) from error
                self._disconnect()
                time.sleep(_PAUSE_S)


def _send(admin: Any, transactional_id: str, request: Any) -> int:
    """Send a request to a transaction's coordinator, which the admin client finds."""
    from kafka.admin.client import CoordinatorType

    async def send() -> int:
        node = await admin._find_coordinator_id(
            transactional_id, key_type=CoordinatorType.TRANSACTION
        )
        response = await admin._manager.send(request, node_id=node)
        code: int = response.error_code
        return code

    result: int = admin._manager.run(send)
    return result


def _error_name(code: int) -> str:
    import kafka.errors

    return f"{kafka.errors.for_code(code).__name__} ({code})"


def transactional_id(prefix: str, subtask: int, number: int) -> str:
    """Return a writer's transactional id; ``number`` is one more than its last checkpoint."""
    return f"{prefix}-{subtask}-{number}"


def parsed_transactional_id(prefix: str, name: str) -> tuple[int, int] | None:
    """Return subtask and number of a transactional id; None if it has another prefix."""
    found = re.fullmatch(re.escape(prefix) + r"-(\d+)-(\d+)", name)
    return None if found is None else (int(found[1]), int(found[2]))
