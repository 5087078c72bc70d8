"""Hadoop settings in PyFlink's signatures."""

from __future__ import annotations

from typing import Any

from penstock.common.configuration import Configuration
from penstock.errors import InvalidProgramError, WrongArgumentError


def refuse_hadoop(hadoop_config: Configuration | None, where: str) -> None:
    """Reject Hadoop settings.

    Raises:
        InvalidProgramError: There are some.
    """
    given: Any = hadoop_config
    if not isinstance(given, Configuration | None):
        raise WrongArgumentError(f"{where}: hadoop_config must be a Configuration, got {given!r}")
    settings = {} if hadoop_config is None else hadoop_config.to_dict()
    if settings:
        raise InvalidProgramError(
            f"{where}: Hadoop is not used, so hadoop_config must be empty, got {settings}"
        )
