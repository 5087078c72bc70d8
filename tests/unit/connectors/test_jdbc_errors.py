"""The errors of databases that are retried."""

import sqlite3

import pytest
from penstock.connectors.jdbc.errors import is_final, remedy
from penstock.errors import SinkError


class OperationalError(Exception):
    """An error as raised by a DB-API 2 package, with the code that some packages add."""

    def __init__(self, text="", **codes):
        super().__init__(text)
        for name, code in codes.items():
            setattr(self, name, code)


class ProgrammingError(OperationalError):
    pass


def sqlite_error(code):
    error = sqlite3.OperationalError("what it says")
    error.sqlite_errorcode = code
    return error


def caused(error):
    made = SinkError("cannot connect")
    made.__cause__ = error
    return made


class OfSqlAlchemy(Exception):
    def __init__(self, orig):
        self.orig = orig


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        *((OperationalError(sqlstate=state), True) for state in ("28P01", "42501", "42P01")),
        *((OperationalError(pgcode=state), True) for state in ("22P02", "23502", "3D000", "0A000")),
        *((OperationalError(sqlstate=state), False) for state in ("40001", "40P01", "08006")),
        *((OperationalError(pgcode=state), False) for state in ("53300", "57P01", "23503")),
        # The code is more specific than the class.
        (ProgrammingError(sqlstate="55P03"), False),
        (ProgrammingError("no such table"), True),
        (OperationalError("the connection is lost"), False),
        (OperationalError('FATAL:  password authentication failed for user "a"'), True),
        (OperationalError("FATAL:  the database system is starting up"), False),
        (OperationalError("FATAL:  sorry, too many clients already"), False),
        (sqlite_error(sqlite3.SQLITE_ERROR), True),
        (sqlite_error(sqlite3.SQLITE_READONLY), True),
        (sqlite_error(sqlite3.SQLITE_CONSTRAINT_NOTNULL), True),
        (sqlite_error(sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY), False),
        (sqlite_error(sqlite3.SQLITE_BUSY), False),
        (sqlite_error(sqlite3.SQLITE_IOERR_READ), False),
        (caused(OperationalError(sqlstate="28000")), True),
        (OfSqlAlchemy(OperationalError(pgcode="42P01")), True),
        (OfSqlAlchemy(OperationalError(pgcode="40001")), False),
        (ConnectionResetError(), False),
    ],
)
def test_errors_that_a_retry_does_not_change_are_final(error, expected):
    assert is_final(error) is expected


def test_the_reaction_follows_from_the_code():
    assert remedy(caused(OperationalError(sqlstate="28P01"))).startswith("; check the user")
    assert remedy(OperationalError(pgcode="42501")).startswith("; GRANT")
    assert remedy(OperationalError()) == ""
