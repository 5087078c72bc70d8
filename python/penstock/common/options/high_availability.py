"""Options of jobs that outlive their driver."""

from typing import Final

from penstock.common.options.option import Option
from penstock.common.options.value_types import ChoiceType, DurationType, TextType

TYPE: Final = Option(
    "high-availability.type",
    ChoiceType(
        "NONE",
        "filesystem",
        absent={
            "zookeeper": "penstock keeps what a driver leaves in files: set filesystem",
            "kubernetes": "penstock keeps what a driver leaves in files: set filesystem",
        },
    ),
    "NONE",
    "whether jobs go on when their driver, or their session's jobmanager, is started again: "
    "`filesystem` keeps what that needs",
    alternate_keys=("high-availability",),
    scope="cluster",
)
STORAGE_FOLDER: Final = Option[str | None](
    "high-availability.storageDir",
    TextType(),
    None,
    "the folder for that, on a file system that all drivers mount, or all jobmanagers and those "
    "who look for them",
    scope="cluster",
)
CLUSTER_ID: Final = Option[str | None](
    "high-availability.cluster-id",
    TextType(),
    None,
    "which program or session it is: drivers, or jobmanagers, with the same name take over from "
    "each other",
    scope="cluster",
)
LEASE: Final = Option(
    "penstock.high-availability.lease",
    DurationType(500),
    10_000,
    "how long a driver that is not heard of is waited for before another takes over",
    scope="cluster",
)
