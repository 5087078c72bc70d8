"""Notes on the jars that a program names: penstock needs none of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_BUILT_IN: Final = {
    "Kafka": "kafka",
    "RabbitMQ": "rabbitmq|amqp-client",
    "JDBC": (
        "jdbc|postgres|mysql|mariadb|sqlite|mssql|ojdbc|oracle|derby|db2|^h2-|clickhouse|snowflake"
    ),
    "Avro": "avro|schema-registry",
    "Parquet": "parquet",
    "ORC": r"(^|[-_])orc([-_.]|$)",
    "CSV": "csv",
    "JSON": "json|jackson|gson",
    "file systems": (
        "flink-connector-files|filesystem|[-_]fs[-_]|hadoop|aws-java-sdk|aliyun|gcs-connector"
    ),
    "RocksDB": "rocksdb|frocksdb",
    "Flink itself": (
        "^flink-(annotations|clients|connector-(base|datagen)|core|dist|java|metrics|optimizer"
        "|python|queryable|rpc|runtime|scala|shaded|statebackend|streaming)|^(scala-library|slf4j"
        "|log4j|logback|guava|commons-|lz4|snappy|zstd|protobuf|py4j)"
    ),
}
"""Built-in features, by name patterns of the jars that provide them in Flink."""


def notes_on_jars(paths: Iterable[str]) -> Iterator[str]:
    """Yield a line for each reason why jars have no effect, with their names.

    Args:
        paths: Their paths or URLs.
    """
    built_in: dict[str, list[str]] = {}
    others = []
    for path in paths:
        name = re.split(r"[/\\]", path.rstrip("/\\"))[-1]
        for what, pattern in _BUILT_IN.items():
            if re.search(pattern, name, re.IGNORECASE):
                built_in.setdefault(what, []).append(name)
                break
        else:
            others.append(name)
    if built_in:
        names = ", ".join(name for group in built_in.values() for name in group)
        what = ", ".join(built_in)
        yield f"jars that are not needed, since penstock has {what} built in: {names}"
    if others:
        yield (
            f"jars without effect, since penstock runs no Java classes: {', '.join(others)}; if "
            "the program uses one of their classes, an error says what to use instead"
        )
