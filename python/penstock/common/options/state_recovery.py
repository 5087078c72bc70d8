"""Options of jobs that start from a savepoint or a retained checkpoint."""

from typing import Final

from penstock.common.options.option import Option
from penstock.common.options.value_types import BooleanType, ChoiceType, FolderType

PATH: Final = Option[str | None](
    "execution.state-recovery.path",
    FolderType(),
    None,
    "the savepoint or retained checkpoint that the job starts from: its directory, or `_metadata`",
    alternate_keys=("execution.savepoint.path",),
)
IGNORE_UNCLAIMED: Final = Option(
    "execution.state-recovery.ignore-unclaimed-state",
    BooleanType(),
    False,
    "whether state of operators that the job does not have is left behind",
    alternate_keys=("execution.savepoint.ignore-unclaimed-state",),
)
FROM_LOCAL: Final = Option(
    "execution.state-recovery.from-local",
    BooleanType(),
    False,
    "whether a task that comes back to its worker starts from the copies there",
    alternate_keys=("state.backend.local-recovery",),
)
CLAIM_MODE: Final = Option(
    "execution.state-recovery.claim-mode",
    ChoiceType(
        "NO_CLAIM",
        "CLAIM",
        absent={
            "LEGACY": "Flink 2 has no claim mode LEGACY any more: set NO_CLAIM or CLAIM",
        },
    ),
    "NO_CLAIM",
    "whether the job owns what it starts from, and deletes it once it has checkpoints of its own",
    alternate_keys=("execution.savepoint-restore-mode",),
)
