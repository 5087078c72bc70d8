"""What PyFlink takes of Hadoop's settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import InvalidProgramError

if TYPE_CHECKING:
    from penstock.common.configuration import Configuration


def refuse_hadoop(hadoop_config: Configuration | None, where: str) -> None:
    """Takes no settings of Hadoop.

    Raises:
        InvalidProgramError: There are some.
    """
    settings = {} if hadoop_config is None else hadoop_config.to_dict()
    if settings:
        raise InvalidProgramError(
            f"{where}: there is no Hadoop here; of hadoop_config nothing can be heeded: {settings}"
        )
