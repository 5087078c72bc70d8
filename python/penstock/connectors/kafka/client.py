"""The client library, and its settings from those that programs for Java's client use.

The library is confluent-kafka, which wraps librdkafka.  Most of its settings have the same names in
Java's client; the others are translated, or rejected with a message that names the replacement.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from penstock.common.packages.optional_library import optional_library
from penstock.errors import ConfigurationError, InvalidProgramError

if TYPE_CHECKING:
    from collections.abc import Mapping

logger = logging.getLogger(__name__)

_RENAMED: Final = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "max.request.size": "message.max.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "request.timeout.ms": "socket.timeout.ms",
    "sasl.mechanism": "sasl.mechanisms",
    "send.buffer.bytes": "socket.send.buffer.bytes",
}

#: Properties of objects and batches inside Java's client, which do not exist here, and of the
#: members of a group: the source assigns partitions itself, as Flink's does.
_WITHOUT_MEANING: Final = frozenset(
    {
        "auto.commit.interval.ms",
        "group.instance.id",
        "group.protocol",
        "heartbeat.interval.ms",
        "key.deserializer",
        "key.serializer",
        "max.poll.interval.ms",
        "max.poll.records",
        "register.consumer.metrics",
        "register.producer.metrics",
        "session.timeout.ms",
        "value.deserializer",
        "value.serializer",
    }
)

_REFUSED: Final = {
    "delivery.report.only.error": "the sink only requests reports of errors",
    "ssl.truststore.location": "name a file of PEM certificates with ssl.ca.location",
    "ssl.truststore.password": "name a file of PEM certificates with ssl.ca.location",
    "ssl.truststore.type": "name a file of PEM certificates with ssl.ca.location",
    "ssl.keystore.type": "name PEM files with ssl.certificate.location and ssl.key.location",
    "interceptor.classes": "there are no Java classes",
    "partitioner.class": "KafkaRecordSerializationSchema.of(function) can set the partition",
    "partition.assignment.strategy": "the source assigns partitions itself",
}

#: Properties that source and sink set themselves, and the method that sets each.
_DECIDED: Final = {
    "auto.offset.reset": "set_starting_offsets sets the start",
    "client.id": "set_client_id_prefix sets the names of clients",
    "enable.auto.commit": "offsets are committed with checkpoints",
    "enable.auto.offset.store": "offsets are committed with checkpoints",
    "enable.partition.eof": "the source looks for the ends of partitions",
}

_JAAS_ENTRY: Final = re.compile(r"(username|password)\s*=\s*(\"([^\"]*)\"|'([^']*)')")


class LibraryLog:
    """The log of the library's own lines, of which a broker that is down causes twenty a second.

    The library takes it as its ``logger``.  The lines have at most the level INFO: `Connections`
    warns of what they say.
    """

    @staticmethod
    def log(level: int, text: str, *arguments: Any) -> None:
        """Log a line; the library's call."""
        logger.log(min(level, logging.INFO), text, *arguments)


def kafka_library(used_by: str) -> Any:
    """Import the module ``confluent_kafka``.

    Raises:
        DependencyError: The package is not installed.
    """
    return optional_library("confluent_kafka", "confluent-kafka", "kafka", used_by)


def client_settings(properties: Mapping[str, str], used_by: str) -> dict[str, str]:
    """Convert the properties of Java's client to the library's settings.

    Raises:
        ConfigurationError: A property has no counterpart.
    """
    settings: dict[str, str] = {}
    for key, value in properties.items():
        if key in _WITHOUT_MEANING:
            logger.info("%s: the property %s has no meaning here", used_by, key)
        elif key in _REFUSED:
            raise ConfigurationError(f"{used_by}: {key} cannot be used here: {_REFUSED[key]}")
        elif key == "sasl.jaas.config":
            settings.update(_credentials(value, used_by))
        elif key == "buffer.memory":
            size = whole_number(properties, key, 0, least=0)
            settings["queue.buffering.max.kbytes"] = str(max(1, size // 1024))
        else:
            settings[_RENAMED.get(key, key)] = value
    return settings


def decided(given: Mapping[str, Any], own: Mapping[str, Any], used_by: str) -> dict[str, Any]:
    """Return the settings, overridden by those of the source or sink (None removes a setting).

    A warning names each value of the program that has no effect.
    """
    for key, value in own.items():
        if str(given.get(key, value)).lower() != str(value).lower():
            logger.warning(
                "%s: the property %s=%s has no effect: %s", used_by, key, given[key], _DECIDED[key]
            )
    return {key: value for key, value in {**given, **own}.items() if value is not None}


def check_brokers(text: str, used_by: str) -> None:
    """Check the addresses of brokers: the library only logs invalid ones.

    Raises:
        InvalidProgramError: There is none, or one is invalid.
    """
    addresses = [address.strip() for address in text.split(",") if address.strip()]
    for address in addresses or [""]:
        try:
            parts = urlsplit(address if "://" in address else f"//{address}")
            fits = bool(parts.hostname) and parts.port != 0 and not parts.path
        except ValueError:
            fits = False
        if not fits:
            raise InvalidProgramError(
                f"{used_by}: bootstrap.servers takes host:port separated by commas, got {address!r}"
            )


def check_settings(settings: Mapping[str, Any], client: Any, used_by: str) -> None:
    """Have the library check settings, without connecting to brokers.

    Args:
        settings: The library's settings.
        client: The class of client that they are for.
        used_by: The source or sink, for messages.

    Raises:
        ConfigurationError: A setting does not exist, or its value is invalid.
    """
    library = kafka_library(used_by)
    if settings.get("group.id") == "":  # the library would end the process
        raise ConfigurationError(f"{used_by}: group.id must name a group, got ''")
    try:
        made = client({**settings, "log_level": "0", "bootstrap.servers": ""})
    except (library.KafkaException, ValueError, TypeError) as error:
        reason = error.args[0].str() if isinstance(error, library.KafkaException) else str(error)
        raise ConfigurationError(f"{used_by}: {reason}") from None
    if isinstance(made, library.Consumer):
        made.close()


def whole_number(
    properties: Mapping[str, str], key: str, default: int, *, least: int | None = None
) -> int:
    """Return the value of a property that is a whole number.

    Raises:
        InvalidProgramError: It is not a whole number, or is less than ``least``.
    """
    text = properties.get(key)
    try:
        number = default if text is None else int(text)
    except ValueError:
        raise InvalidProgramError(
            f"the property {key} must be a whole number, got {text!r}"
        ) from None
    if least is not None and number < least:
        raise InvalidProgramError(f"the property {key} must be at least {least}, got {text}")
    return number


def _credentials(jaas: str, used_by: str) -> dict[str, str]:
    """Parse user and password from a login module's configuration in Java's notation."""
    found = {key: double or single for key, _, double, single in _JAAS_ENTRY.findall(jaas)}
    if not jaas.split()[:1] or not jaas.split()[0].endswith(
        ("PlainLoginModule", "ScramLoginModule")
    ):
        raise ConfigurationError(
            f"{used_by}: sasl.jaas.config must name PlainLoginModule or ScramLoginModule; for "
            "others set librdkafka's sasl.* properties"
        )
    if len(found) != 2:
        raise ConfigurationError(f"{used_by}: sasl.jaas.config lacks username or password")
    return {"sasl.username": found["username"], "sasl.password": found["password"]}
