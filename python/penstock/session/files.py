"""Registry of this user's sessions on this machine, by name, and other ways to name one.

A session's file is beside those of the REST interface, in a folder that only the user can read, and
only the user can read the file: it holds the session's token.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import psutil

from penstock.errors import ConfigurationError
from penstock.rest.run_files import is_alive, private_folder, run_directory, running_clusters
from penstock.rpc.control_credentials import ControlCredentials

if TYPE_CHECKING:
    from pathlib import Path

SESSION_VARIABLE: Final = "PENSTOCK_SESSION"
TOKEN_VARIABLE: Final = "PENSTOCK_SESSION_TOKEN"
SUFFIX: Final = ".session"
MIN_TOKEN_CHARACTERS: Final = 32
_MAX_BYTES: Final = 64 * 1024
"""Limit of a session's file, which has an address, a token and the id of a process."""
MAX_PORT: Final = 65_535
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_tokens: dict[tuple[str, int], str] = {}
"""Tokens set by the program, by host and port; they are not in the job's options."""

_ADDRESS: Final = re.compile(r"(?:penstock://)?(\[[0-9a-fA-F:]+\]|[^:/\[\]]+):([0-9]{1,5})/?")


@dataclass(frozen=True)
class SessionAddress:
    """A session.

    Attributes:
        name: Its name; host and port if only these are known.
        host: The address that its jobmanager listens on.
        port: The port of that address.
        token: The token that it requires.
        pid: The jobmanager's process on this machine; None if unknown.
        must_encrypt: Whether to reject it if it does not encrypt.
    """

    name: str
    host: str
    port: int
    token: str
    pid: int | None = None
    must_encrypt: bool = False

    def __repr__(self) -> str:
        return f"SessionAddress({self.name!r}, {self.host}:{self.port})"

    @property
    def credentials(self) -> ControlCredentials:
        """Return the credentials for its jobmanager."""
        return ControlCredentials.of_session(self.token.encode(), insists=self.must_encrypt)


class SessionFile:
    """The file of a session that this process runs."""

    def __init__(self, address: SessionAddress) -> None:
        """Create the object; nothing is written yet.

        Raises:
            ConfigurationError: The name is invalid.
        """
        check_name(address.name)
        self._path = run_directory() / f"{address.name}{SUFFIX}"
        self._content = {
            "host": address.host,
            "port": address.port,
            "token": address.token,
            "pid": os.getpid(),
            "process_started_s": psutil.Process().create_time(),
        }

    def write(self, *, takes_over: bool = False) -> None:
        """Write the file.

        Args:
            takes_over: Whether this process leads, so that no other one of this name does.

        Raises:
            ConfigurationError: A session of this name runs.
            OSError: The folder is another user's, or cannot be created.
        """
        private_folder(self._path.parent)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        if self._path.exists():
            found = _read(self._path)
            if not takes_over and found is not None and is_alive(found):
                raise ConfigurationError(
                    f"a session {self._path.stem!r} runs already (pid {found['pid']}): give "
                    "another --name, or stop it by `penstock cluster stop`"
                )
            self._path.unlink(missing_ok=True)
        try:
            descriptor = os.open(self._path, flags, 0o600)
        except FileExistsError:
            raise ConfigurationError(f"a session {self._path.stem!r} is being started") from None
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(self._content, file)

    def remove(self) -> None:
        """Remove the file, unless it belongs to another process by now."""
        found = _read(self._path)
        if found is not None and found["pid"] == os.getpid():
            self._path.unlink(missing_ok=True)


def check_name(name: str) -> None:
    """Check the name of a session.

    Raises:
        ConfigurationError: It is invalid.
    """
    if _NAME.fullmatch(name) is None:
        raise ConfigurationError(
            f"the name of a session has up to 64 letters, digits, '.', '_' and '-', not {name!r}"
        )


def sessions() -> list[SessionAddress]:
    """Return this user's sessions on this machine, by name; remove files of ended ones."""
    found = []
    try:
        paths = sorted(run_directory().glob(f"*{SUFFIX}"))
    except OSError:
        return []
    for path in paths:
        content = _read(path)
        if content is None:
            continue
        if not is_alive(content):
            path.unlink(missing_ok=True)
            continue
        found.append(
            SessionAddress(
                path.stem, content["host"], content["port"], content["token"], content["pid"]
            )
        )
    return found


def remember_token(address: str, token: str) -> None:
    """Store the token of a session that this process names by its address.

    Raises:
        ConfigurationError: The address or the token is invalid.
    """
    _tokens[parse_address(address)] = check_token(token, "token")


def find_session(named: str | None, *, how_to_name: str = "--cluster NAME") -> SessionAddress:
    """Return the session with a name or address; without one the only one on this machine.

    Args:
        named: A name, or ``host:port`` of the jobmanager, whose token was stored or is in
            `TOKEN_VARIABLE`; on this machine also that of its REST interface.
        how_to_name: The hint in the message if none is named and there are several.

    Raises:
        ConfigurationError: There is none, or several, or its token is not known.
    """
    known = sessions()
    named = named or os.environ.get(SESSION_VARIABLE) or None
    if named is None:
        if len(known) == 1:
            return known[0]
        if not known:
            raise ConfigurationError(
                "no session of this user runs on this machine: start one by `penstock cluster "
                f"start`, or name one by `{how_to_name}`"
            )
        raise ConfigurationError(
            f"several sessions: {_listed(known)}; name one by `{how_to_name}`, or start one "
            "by `penstock cluster start`"
        )
    own = next((one for one in known if one.name == named), None)
    if own is not None:
        return own
    if ":" not in named:
        raise ConfigurationError(
            f"there is no session {named!r} of this user on this machine: {_listed(known)}; start "
            "it by `penstock cluster start`, or name a remote one by host:port"
        )
    host, port = parse_address(named)
    if _is_here(host):
        # Flink's command line names a cluster by the address of its REST interface.
        served = {one.pid for one in running_clusters() if urlsplit(one.url).port == port}
        own = next((one for one in known if one.pid in served), None)
        if own is not None:
            return own
    token = _tokens.get((host, port)) or os.environ.get(TOKEN_VARIABLE)
    if token is None:
        own = next((one for one in known if one.port == port and _is_here(host)), None)
        if own is not None:
            return own
        raise ConfigurationError(
            f"the session at {host}:{port} asks for its token: set {TOKEN_VARIABLE}, or pass it "
            "as the argument token"
        )
    return SessionAddress(f"{host}:{port}", host, port, check_token(token, TOKEN_VARIABLE))


def parse_address(text: str) -> tuple[str, int]:
    """Return host and port of ``host:port``.

    Raises:
        ConfigurationError: It is invalid.
    """
    match = _ADDRESS.fullmatch(text)
    if match is None or not 0 < int(match[2]) <= MAX_PORT:
        raise ConfigurationError(f"an address is written as host:port, not {text!r}")
    return match[1].strip("[]"), int(match[2])


def check_token(token: str, where: str) -> str:
    """Return the token without surrounding whitespace.

    Raises:
        ConfigurationError: It is too short to be a secret.
    """
    token = token.strip()
    if len(token) < MIN_TOKEN_CHARACTERS:
        raise ConfigurationError(
            f"{where}: a token has at least {MIN_TOKEN_CHARACTERS} characters, as "
            "`openssl rand -hex 32` makes them"
        )
    return token


def _is_here(host: str) -> bool:
    return host in ("localhost", "127.0.0.1", "::1")


def _listed(known: list[SessionAddress]) -> str:
    return "running are " + ", ".join(one.name for one in known) if known else "none runs"


def _read(path: Path) -> dict[str, Any] | None:
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            if os.fstat(file.fileno()).st_uid != os.getuid():
                return None  # another user's, who may want to receive jobs
            content = json.loads(file.read(_MAX_BYTES))
        kinds = {"host": str, "port": int, "token": str, "pid": int, "process_started_s": float}
        if all(isinstance(content[key], kind) for key, kind in kinds.items()):
            return dict(content)
    except (OSError, ValueError, KeyError, TypeError):
        pass  # it is being written, or not one of this program's
    return None
