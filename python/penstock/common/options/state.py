"""Options of where state is kept."""

from typing import Final

from penstock.common.options.option import Option
from penstock.common.options.value_types import BooleanType, ChoiceType

BACKEND: Final = Option(
    "state.backend.type",
    ChoiceType(
        "hashmap",
        absent={
            name: f"penstock has no {name} state backend: set hashmap"
            for name in ("rocksdb", "forst", "filesystem", "jobmanager")
        },
    ),
    "hashmap",
    "where state is kept while a job runs",
    alternate_keys=("state.backend",),
)
CHANGELOG: Final = Option(
    "state.changelog.enabled",
    BooleanType(),
    False,
    "write changes of state continuously; true is refused, since penstock does not",
    alternate_keys=("state.backend.changelog.enabled",),
)
