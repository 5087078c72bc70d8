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
    "whether jobs go on when their driver, or their session's jobmanager, is started again: "
    "`filesystem` keeps what that needs in a folder, `zookeeper` in a ZooKeeper beside it "
    "(extra `penstock-engine[zookeeper]`)",
    alternate_keys=("recovery.mode", "high-availability"),
    scope="cluster",
)
STORAGE_FOLDER: Final = Option[str | None](
    "high-availability.storageDir",
    FolderType(),
    None,
    "the folder for that, on a file system that all drivers mount, or all jobmanagers and those "
    "who look for them; with `zookeeper` for what is large, also in an object store",
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
    "which program or session it is: drivers, or jobmanagers, with the same name take over from "
    "each other",
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
    "how long a driver that is not heard of is waited for before another takes over, with "
    "`filesystem`",
    scope="cluster",
)
ZOOKEEPER_QUORUM: Final = Option[str | None](
    "high-availability.zookeeper.quorum",
    TextType(),
    None,
    "the servers of the ZooKeeper, `HOST:PORT` separated by commas",
    alternate_keys=("recovery.zookeeper.quorum",),
    scope="cluster",
)
ZOOKEEPER_ROOT: Final = Option(
    "high-availability.zookeeper.path.root",
    TextType(),
    "/penstock",
    "the node below which each cluster id has its own",
    alternate_keys=("recovery.zookeeper.path.root",),
    scope="cluster",
)
ZOOKEEPER_SESSION_TIMEOUT: Final = Option(
    "high-availability.zookeeper.client.session-timeout",
    DurationType(100),
    60_000,
    "how long a driver that the ZooKeeper does not hear of is waited for before another takes over",
    alternate_keys=("recovery.zookeeper.client.session-timeout",),
    scope="cluster",
)
ZOOKEEPER_CONNECTION_TIMEOUT: Final = Option(
    "high-availability.zookeeper.client.connection-timeout",
    DurationType(100),
    15_000,
    "how long a first connection to the ZooKeeper is waited for",
    alternate_keys=("recovery.zookeeper.client.connection-timeout",),
    scope="cluster",
)
ZOOKEEPER_ACL: Final = Option(
    "high-availability.zookeeper.client.acl",
    ChoiceType("open", "creator"),
    "open",
    "who may read and write penstock's nodes of the ZooKeeper: everybody, or only clients that "
    "prove what `high-availability.zookeeper.client.authorization` says",
    scope="cluster",
)
ZOOKEEPER_AUTHORIZATION: Final[Option[dict[str, str]]] = Option(
    "high-availability.zookeeper.client.authorization",
    MapType(),
    {},
    "what a client shows the ZooKeeper, by scheme, as `digest:'user:password'`",
    scope="cluster",
)
