"""Options of jobs that outlive their driver."""

from typing import Final

from penstock.common.options.option import Option
from penstock.common.options.value_types import (
    ChoiceType,
    DurationType,
    FolderType,
    MapType,
    TextType,
)

TYPE: Final = Option(
    "high-availability.type",
    ChoiceType(
        "NONE",
        "filesystem",
        "zookeeper",
        absent={
            "kubernetes": "penstock does not ask Kubernetes who leads: set filesystem or zookeeper",
        },
    ),
    "NONE",
    "whether jobs continue when their driver, or their session's jobmanager, is started "
    "again: `filesystem` stores the needed data in a folder, `zookeeper` in a ZooKeeper "
    "beside it (extra `penstock-engine[zookeeper]`)",
    alternate_keys=("recovery.mode", "high-availability"),
    scope="cluster",
)
STORAGE_FOLDER: Final = Option[str | None](
    "high-availability.storageDir",
    FolderType(),
    None,
    "folder for that data, on a file system that all drivers, or all jobmanagers and their "
    "clients, mount; with `zookeeper` for large data, also in an object store",
    alternate_keys=(
        "high-availability.zookeeper.storageDir",
        "recovery.zookeeper.storageDir",
    ),
    scope="cluster",
)
CLUSTER_ID: Final = Option[str | None](
    "high-availability.cluster-id",
    TextType(),
    None,
    "name of the program or session: drivers, or jobmanagers, with the same name take over "
    "from each other",
    alternate_keys=(
        "high-availability.zookeeper.path.namespace",
        "recovery.zookeeper.path.namespace",
    ),
    scope="cluster",
)
LEASE: Final = Option(
    "penstock.high-availability.lease",
    DurationType(500),
    10_000,
    "time without a sign of life after which another driver takes over, with `filesystem`",
    scope="cluster",
)
ZOOKEEPER_QUORUM: Final = Option[str | None](
    "high-availability.zookeeper.quorum",
    TextType(),
    None,
    "servers of the ZooKeeper, `HOST:PORT` separated by commas",
    alternate_keys=("recovery.zookeeper.quorum",),
    scope="cluster",
)
ZOOKEEPER_ROOT: Final = Option(
    "high-availability.zookeeper.path.root",
    TextType(),
    "/penstock",
    "node below which each cluster id has its own",
    alternate_keys=("recovery.zookeeper.path.root",),
    scope="cluster",
)
ZOOKEEPER_SESSION_TIMEOUT: Final = Option(
    "high-availability.zookeeper.client.session-timeout",
    DurationType(100),
    60_000,
    "time without a sign of life after which another driver takes over",
    alternate_keys=("recovery.zookeeper.client.session-timeout",),
    scope="cluster",
)
ZOOKEEPER_CONNECTION_TIMEOUT: Final = Option(
    "high-availability.zookeeper.client.connection-timeout",
    DurationType(100),
    15_000,
    "timeout of the first connection to the ZooKeeper",
    alternate_keys=("recovery.zookeeper.client.connection-timeout",),
    scope="cluster",
)
ZOOKEEPER_ACL: Final = Option(
    "high-availability.zookeeper.client.acl",
    ChoiceType("open", "creator"),
    "open",
    "who may read and write penstock's nodes of the ZooKeeper: everybody, or only clients "
    "with `high-availability.zookeeper.client.authorization`",
    scope="cluster",
)
ZOOKEEPER_AUTHORIZATION: Final[Option[dict[str, str]]] = Option(
    "high-availability.zookeeper.client.authorization",
    MapType(),
    {},
    "credentials of the client, by scheme, such as `digest:'user:password'`",
    scope="cluster",
)
