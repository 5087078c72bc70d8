"""Classification of database errors: those that a retry would not change."""

from __future__ import annotations

from typing import Any, Final

#: SQLSTATE classes and codes that a retry does not change: missing features, invalid values,
#: permissions, names.  Constraints count only if they concern the row or its key: the rows that
#: foreign keys refer to may still arrive.
_FINAL_STATES: Final = ("0A", "22", "23502", "23505", "23514", "28", "3D", "3F", "42")

#: SQLite's codes of the same kind, by their lowest byte: SQL and names, permissions, a file that
#: is not a database, values.
_FINAL_SQLITE: Final = (1, 3, 8, 18, 19, 20, 23, 25, 26)
_SQLITE_FOREIGN_KEY: Final = 787

#: The same as DB-API 2 classes, for packages without codes.
_FINAL_CLASSES: Final = ("DataError", "NotSupportedError", "ProgrammingError")

#: Messages of a server that is not ready yet; while connecting, a client receives no code.
PASSING_WORDS: Final = (
    "starting up",
    "shutting down",
    "not yet accepting",
    "recovery mode",
    "too many",
    "connection slots",
)

_REMEDIES: Final = {
    "28": "check the user, the password and the server's access rules",
    "3D": "check the name of the database",
    "3F": "check the name of the schema, or create it",
    "42501": "GRANT the user the privileges of the statement",
    "42P01": "check the name of the table and the search_path, or create the table",
    "42703": "check the names of the columns",
}


def refused_by_server(reason: str) -> bool:
    """Return whether libpq's message, which has no code, says that a server refused the login."""
    return "FATAL:" in reason and not any(words in reason for words in PASSING_WORDS)


def is_final(error: BaseException) -> bool:
    """Return whether a retry would fail with the same error of a DB-API 2 package."""
    cause = _of_package(error)
    state = _state(cause)
    if state is not None:
        return state.startswith(_FINAL_STATES)
    code = getattr(cause, "sqlite_errorcode", None)
    if isinstance(code, int):
        return code & 0xFF in _FINAL_SQLITE and code != _SQLITE_FOREIGN_KEY
    names = [kind.__name__ for kind in type(cause).__mro__]
    if any(name in _FINAL_CLASSES for name in names):
        return True
    return "OperationalError" in names and refused_by_server(str(cause))


def is_unreadable(error: BaseException) -> bool:
    """Return whether a package cannot convert a value of the server to a Python value."""
    names = [kind.__name__ for kind in type(error).__mro__]
    return "DataError" in names and _state(error) is None


def remedy(error: BaseException) -> str:
    """Return the remedy for a final error; empty if its code is unknown."""
    state = _state(_of_package(error)) or ""
    found = _REMEDIES.get(state) or _REMEDIES.get(state[:2])
    return "" if found is None else f"; {found}"


def _of_package(error: BaseException) -> BaseException:
    """Return the package's error within those of SQLAlchemy and penstock."""
    while True:
        inner = getattr(error, "orig", None) or error.__cause__
        if _state(error) is not None or not isinstance(inner, BaseException):
            return error
        error = inner


def _state(error: Any) -> str | None:
    """Return the SQLSTATE, under psycopg's or psycopg2's name."""
    for name in ("sqlstate", "pgcode"):
        found = getattr(error, name, None)
        if isinstance(found, str):
            return found
    return None
