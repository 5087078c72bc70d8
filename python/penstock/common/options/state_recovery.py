"""Options of jobs that start from a savepoint or a retained checkpoint."""

from typing import Final

from penstock.common.options.option import Option
from penstock.common.options.value_types import BooleanType, ChoiceType, FolderType

PATH: Final = Option[str | None](
    "execution.state-recovery.path",
    FolderType(),
    None,
    "savepoint or retained checkpoint from which the job starts: its directory, or `_metadata`",
    alternate_keys=("execution.savepoint.path",),
)
IGNORE_UNCLAIMED: Final = Option(
    "execution.state-recovery.ignore-unclaimed-state",
    BooleanType(),
    False,
    "drop the state of operators that the job does not have",
    alternate_keys=("execution.savepoint.ignore-unclaimed-state",),
)
FROM_LOCAL: Final = Option(
    "execution.state-recovery.from-local",
    BooleanType(),
    False,
    "let a task that returns to its worker restore the copies there",
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
    "whether the job owns the files from which it starts, and deletes them once it has its "
    "own checkpoints",
    alternate_keys=("execution.savepoint-restore-mode",),
)
