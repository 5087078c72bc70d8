"""Options of the REST interface."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.common.options.option import Option
from penstock.common.options.value_types import (
    BooleanType,
    ChoiceType,
    DurationType,
    MemorySizeType,
    PortRangeType,
    TextType,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

PORT: Final[Option[tuple[int, ...] | None]] = Option(
    "rest.bind-port",
    PortRangeType(),
    None,
    "where the REST interface listens; 0 for any free port; see [Operations](operations.md)",
    alternate_keys=("rest.port",),
    default_text="there is none",
)
BIND_ADDRESS: Final = Option(
    "rest.bind-address",
    TextType(),
    "127.0.0.1",
    "the address on which the REST interface listens",
)
AUTHENTICATION: Final = Option(
    "rest.authentication",
    ChoiceType("token", "none"),
    "token",
    "whether the REST interface asks for a token; without one it is open to all who reach it",
)
TOKEN: Final[Option[str | None]] = Option(
    "rest.token",
    TextType(),
    None,
    "the token that the REST interface asks for",
    default_text="a new one for each cluster",
)
READ_ONLY: Final = Option(
    "rest.read-only",
    BooleanType(),
    False,
    "whether the REST interface refuses what changes a job: cancel, stop, savepoints, checkpoints",
)
MAX_CONTENT: Final = Option(
    "rest.server.max-content-length",
    MemorySizeType(1024),
    64 * 1024,
    "the longest body that the REST interface takes",
)
REFRESH_INTERVAL: Final = Option(
    "web.refresh-interval",
    DurationType(100),
    3_000,
    "how often tools should ask the REST interface anew; it tells them",
)


def without_secrets(options: Mapping[str, str]) -> dict[str, str]:
    """The options as workers get them: user code reads them, and the token is not for it."""
    return {key: value for key, value in options.items() if key != TOKEN.key}
