"""Finds the session that a program's or a taskexecutor's options name."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.common.options.cluster import SESSION
from penstock.common.options.security import TLS_ENABLED
from penstock.errors import ConfigurationError, PenstockError
from penstock.high_availability.services import HighAvailabilityServices
from penstock.session.files import (
    SESSION_VARIABLE,
    TOKEN_VARIABLE,
    SessionAddress,
    check_token,
    find_session,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


def find_by_options(configuration: Mapping[str, str]) -> SessionAddress:
    """Return the current address of the session's jobmanager.

    With ``high-availability.type``, and unless the session is named, it is the address that the
    leader of ``high-availability.cluster-id`` has published.

    Raises:
        ConfigurationError: There is none, or the choice is ambiguous.
    """
    named = SESSION.read(configuration)
    services = HighAvailabilityServices.configured(configuration)
    if services is None or named is not None or os.environ.get(SESSION_VARIABLE):
        found = find_session(named)
    else:
        address = leading_jobmanager(services)
        if address is None:
            raise ConfigurationError(
                f"no jobmanager leads {services}: start one by `penstock jobmanager` with the same "
                "high-availability options"
            )
        host, port = address
        token = os.environ.get(TOKEN_VARIABLE)
        if token is None:
            found = find_session(f"{host}:{port}")
        else:
            name = f"{host}:{port}"
            found = SessionAddress(name, host, port, check_token(token, TOKEN_VARIABLE))
    return replace(found, must_encrypt=TLS_ENABLED.read(configuration))


def leading_jobmanager(services: HighAvailabilityServices) -> tuple[str, int] | None:
    """Return host and port of the leader; None while there is none.

    Raises:
        ConfigurationError: The published address cannot be read.
    """
    finder = services.finder()
    try:
        address = finder.find()
    except (OSError, PenstockError) as error:
        raise ConfigurationError(f"the leader cannot be read: {services}: {error}") from error
    finally:
        finder.close()
    return None if address is None else (address.host, address.port)
