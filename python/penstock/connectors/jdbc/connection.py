"""Connections to databases: by a JDBC URL, a function that connects, or SQLAlchemy."""

from __future__ import annotations

import importlib
import logging
import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from penstock.common.calls.argument_kinds import checks_arguments
from penstock.common.calls.missing_methods import NoJavaMembers
from penstock.common.composite_types import (
    ListTypeInfo,
    MapTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
)
from penstock.common.packages.optional_library import optional_library
from penstock.connectors.postgres_url import postgres_settings
from penstock.errors import DependencyError, InvalidProgramError

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger(__name__)

#: Quoted texts, placeholders and per cent signs.
_MARKS: Final = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|\?|%")

#: User and password, which libpq accepts within URLs.
_USER: Final = re.compile(r"//[^/]*@")

#: Types whose values no column can store.
_NESTED: Final = (RowTypeInfo, TupleTypeInfo, MapTypeInfo)

#: The parameter styles of packages that can express positional parameters.
_STYLES: Final = ("qmark", "format", "pyformat")

#: Values of settings that do not require TLS.
_NO: Final = ("false", "no", "disabled", "disable", "preferred")


@dataclass(frozen=True)
class _Database:
    """A kind of database: its Python package, and the names of its JDBC drivers."""

    package: str
    java: tuple[str, ...]
    others: tuple[str, ...]
    extra: str | None
    has_arrays: bool = False


_DATABASES: Final = {
    "sqlite": _Database("sqlite3", ("org.sqlite.JDBC",), (), None),
    "postgresql": _Database("psycopg", ("org.postgresql.Driver",), ("psycopg2",), "postgres", True),
    "mysql": _Database(
        "pymysql",
        ("com.mysql.cj.jdbc.Driver", "com.mysql.jdbc.Driver"),
        ("MySQLdb", "mysql.connector"),
        None,
    ),
}

#: SQLAlchemy's names of the packages for MySQL.
_MYSQL_DRIVERS: Final = {
    "pymysql": "mysql+pymysql",
    "MySQLdb": "mysql+mysqldb",
    "mysql.connector": "mysql+mysqlconnector",
}


class JdbcConnectionOptions(NoJavaMembers):
    """Connection to a database; created by `JdbcConnectionOptionsBuilder`, or `of`."""

    def __init__(
        self,
        url: str,
        driver_name: str | None = None,
        user_name: str | None = None,
        password: str | None = None,
        *,
        connect: Callable[[], Any] | None = None,
        paramstyle: str = "qmark",
    ) -> None:
        """Store the settings of a builder; use `JdbcConnectionOptionsBuilder`."""
        self._url = url
        self._driver_name = driver_name
        self._user_name = user_name
        self._password = password
        self._connect = connect
        self._paramstyle = paramstyle

    @staticmethod
    def of(connect: Callable[[], Any], paramstyle: str = "qmark") -> JdbcConnectionOptions:
        """Return options for a database of any DB-API 2 package (beyond PyFlink).

        Args:
            connect: Function that opens a connection, in the worker.
            paramstyle: The package's style of placeholders: ``qmark`` or ``format``.

        Raises:
            InvalidProgramError: The argument is not a function, or the style is unknown.
        """
        if not callable(connect):
            raise InvalidProgramError(f"expected a function that connects, got {connect!r}")
        if paramstyle not in _STYLES:
            raise InvalidProgramError(f"paramstyle must be qmark or format, got {paramstyle!r}")
        return JdbcConnectionOptions("", connect=connect, paramstyle=paramstyle)

    @staticmethod
    def of_sqlalchemy(url: str, **connect_args: Any) -> JdbcConnectionOptions:
        """Return options for a database that SQLAlchemy reaches (beyond PyFlink).

        Args:
            url: A URL of SQLAlchemy: ``postgresql+psycopg://user@host/name``, ``sqlite:///path``.
            connect_args: Arguments that the database's package receives when it connects.

        Raises:
            InvalidProgramError: The URL is malformed, or its package uses other placeholders.
            DependencyError: SQLAlchemy or the package of the database is not installed.
        """
        library = optional_library("sqlalchemy", "sqlalchemy", "sqlalchemy", "of_sqlalchemy")
        try:
            made = library.make_url(url)
            style = library.create_engine(made).dialect.dbapi.paramstyle
        except library.exc.ArgumentError as error:
            # The text may contain a password.
            raise InvalidProgramError(
                f"of_sqlalchemy takes a SQLAlchemy URL: {type(error).__name__}"
            ) from error.with_traceback(None)
        except ImportError as error:
            raise DependencyError(
                f"of_sqlalchemy needs the package of {made.drivername}: {error}"
            ) from error
        if style not in _STYLES:
            raise InvalidProgramError(
                f"the package of {made.drivername} marks values by {style!r}, which is not "
                f"supported; {', '.join(_STYLES)} are"
            )
        connect = partial(_connected_by_sqlalchemy, url, connect_args)
        shown = made.render_as_string(hide_password=True)
        return JdbcConnectionOptions(shown, connect=connect, paramstyle=style)

    def get_db_url(self) -> str:
        """Return the URL; empty if the options were created by `of`."""
        return self._url

    def get_driver_name(self) -> str | None:
        """Return the configured driver, or None."""
        return self._driver_name

    def get_user_name(self) -> str | None:
        """Return the user, or None."""
        return self._user_name

    def get_password(self) -> str | None:
        """Return the password, or None."""
        return self._password

    def __repr__(self) -> str:
        return f"JdbcConnectionOptions({self.shown})"

    @property
    def shown(self) -> str:
        """The database as messages show it, without possible passwords."""
        if self._connect is not None and not self._url:
            return getattr(self._connect, "__qualname__", repr(self._connect))
        return _USER.sub("//", self._url.partition("?")[0])

    @property
    def paramstyle(self) -> str:
        """Return the package's style of placeholders."""
        return self._paramstyle if self._connect is not None else self.load().paramstyle

    def load(self) -> Any:
        """Import the package of the database; return None if the options were created by `of`.

        Raises:
            DependencyError: The package is not installed.
        """
        if self._connect is not None:
            return None
        database = _DATABASES[_kind_of(self._url)]
        name = self._driver_name
        package = name if name in database.others else database.package
        try:
            return importlib.import_module(str(package))
        except ImportError as error:
            extra = f"'penstock-engine[{database.extra}]'" if package == "psycopg" else package
            raise DependencyError(
                f"JDBC needs the package {package} for {self.shown}: pip install {extra} ({error})"
            ) from error

    def check(self) -> None:
        """Check the URL as far as the database's package can without a connection.

        Raises:
            InvalidProgramError: The package does not accept the URL.
            DependencyError: The package is not installed.
        """
        package = self.load()
        if package is not None and _kind_of(self._url) == "postgresql":
            is_new = package.__name__ == "psycopg"
            postgres_settings(
                self._url.removeprefix("jdbc:"),
                package.conninfo.conninfo_to_dict if is_new else package.extensions.parse_dsn,
                package.ProgrammingError,
                "JdbcConnectionOptions: what follows jdbc:",
            )

    def check_fields(self, used_by: str, row_type: RowTypeInfo) -> None:
        """Check that a column of the database can store the values of each field.

        Options of `of` and `of_sqlalchemy` pass: their packages may have adapters for any class.

        Args:
            used_by: The method, for the message.
            row_type: The type of the rows.

        Raises:
            InvalidProgramError: A field is a row, tuple or map, or a list and the database has no
                arrays; the message names it.
        """
        if not self._url.startswith("jdbc:"):
            return
        database = _DATABASES[_kind_of(self._url)]
        unfit = _NESTED if database.has_arrays else (*_NESTED, ListTypeInfo)
        for name, kind in zip(row_type.get_field_names(), row_type.get_field_types(), strict=True):
            if isinstance(kind, unfit):
                raise InvalidProgramError(
                    f"{used_by}: the field {name!r} is a {kind!r}, which no column of {self.shown} "
                    "can store: map the records to flat rows first, or the field to a text, such "
                    "as json.dumps(value)"
                )

    def connect(self) -> Any:
        """Open a connection."""
        if self._connect is not None:
            return self._connect()
        package, place = self.load(), self._url.removeprefix("jdbc:")
        if _kind_of(self._url) == "sqlite":
            return package.connect(place.removeprefix("sqlite:"))
        given = {"user": self._user_name, "password": self._password}
        return package.connect(place, **{k: v for k, v in given.items() if v is not None})

    @checks_arguments
    class JdbcConnectionOptionsBuilder(NoJavaMembers):
        """Builder of JdbcConnectionOptions."""

        def __init__(self) -> None:
            """Create a builder without settings."""
            self._url: str | None = None
            self._driver_name: str | None = None
            self._user_name: str | None = None
            self._password: str | None = None

        def with_url(self, url: str) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """Set the database: ``jdbc:postgresql://host:5432/name``, ``jdbc:sqlite:/path``.

            SQLAlchemy reaches ``jdbc:mysql://host:3306/name``.

            Raises:
                InvalidProgramError: The URL names another kind of database.
            """
            _kind_of(url)
            self._url = url
            return self

        def with_driver_name(
            self, driver_name: str
        ) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """Set the driver: a Java class or a Python package."""
            self._driver_name = driver_name
            return self

        def with_user_name(
            self, user_name: str
        ) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """Set the user."""
            self._user_name = user_name
            return self

        def with_password(
            self, password: str
        ) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """Set the password."""
            self._password = password
            return self

        def build(self) -> JdbcConnectionOptions:
            """Return the options.

            Raises:
                InvalidProgramError: There is no URL, or a setting does not apply to its database.
            """
            if self._url is None:
                raise InvalidProgramError("JdbcConnectionOptions need with_url")
            database, name = _DATABASES[_kind_of(self._url)], self._driver_name
            known = (database.package, *database.others, *database.java)
            if name is not None and name not in known:
                raise InvalidProgramError(
                    f"with_driver_name: {name!r} is not one of the drivers {', '.join(known)} of "
                    f"{_USER.sub('//', self._url.partition('?')[0])}"
                )
            if database is _DATABASES["sqlite"]:
                if self._url == "jdbc:sqlite:":
                    raise InvalidProgramError(
                        "with_url: the path of the database must follow jdbc:sqlite:"
                    )
                given = {"with_user_name": self._user_name, "with_password": self._password}
                for method, value in given.items():
                    if value is not None:
                        raise InvalidProgramError(
                            f"{method}: a database of SQLite has no users: {self._url} is a file"
                        )
            if database is _DATABASES["mysql"]:
                return _of_mysql(self._url, name, self._user_name, self._password)
            return JdbcConnectionOptions(self._url, name, self._user_name, self._password)


def _of_mysql(
    url: str, driver_name: str | None, user_name: str | None, password: str | None
) -> JdbcConnectionOptions:
    """Return options that reach MySQL by SQLAlchemy and one of its packages.

    Raises:
        InvalidProgramError: The URL asks for TLS, or names no host.
        DependencyError: SQLAlchemy or the package is not installed.
    """
    parts = urlsplit(url.removeprefix("jdbc:"))
    shown = _USER.sub("//", url.partition("?")[0])
    given = dict(parse_qsl(parts.query))
    user = user_name or given.pop("user", None) or unquote(parts.username or "") or None
    secret = password or given.pop("password", None) or unquote(parts.password or "") or None
    asked = [f"{k}={v}" for k, v in given.items() if "ssl" in k.lower() and v.lower() not in _NO]
    if asked or not parts.hostname:
        wrong = f"{', '.join(asked)} is for Java's driver" if asked else "it names no host"
        raise InvalidProgramError(
            f"with_url: {shown}: {wrong}; use JdbcConnectionOptions.of_sqlalchemy(url, …), whose "
            "arguments go to the package of the database"
        )
    if given:
        logger.info("%s: without effect, as settings of Java's driver: %s", shown, ", ".join(given))
    library = _imported("sqlalchemy")
    wanted = [driver_name] if driver_name in _MYSQL_DRIVERS else list(_MYSQL_DRIVERS)
    found = next((name for name in wanted if _imported(name) is not None), None)
    if library is None or found is None:
        raise DependencyError(
            f"JDBC reaches {shown} by SQLAlchemy and one of the packages {', '.join(wanted)}: "
            "pip install 'penstock-engine[sqlalchemy]' pymysql; or use "
            "JdbcConnectionOptions.of_sqlalchemy(url), or of(connect) with any package of DB-API 2"
        )
    made = library.URL.create(
        _MYSQL_DRIVERS[found], user, secret, parts.hostname, parts.port, parts.path.strip("/")
    )
    text = made.render_as_string(hide_password=False)
    reached = JdbcConnectionOptions.of_sqlalchemy(text)
    return JdbcConnectionOptions(
        url,
        driver_name,
        user_name,
        password,
        connect=partial(_connected_by_sqlalchemy, text, {}),
        paramstyle=reached.paramstyle,
    )


def _imported(name: str) -> Any | None:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _kind_of(url: str) -> str:
    kind = urlsplit(url.removeprefix("jdbc:")).scheme
    if not url.startswith("jdbc:") or kind not in _DATABASES:
        raise InvalidProgramError(
            f"a URL must begin with jdbc: and one of {', '.join(_DATABASES)}, got "
            f"{_USER.sub('//', url.partition('?')[0])!r}; JdbcConnectionOptions.of_sqlalchemy(url) "
            "takes any URL of SQLAlchemy, of(connect) any package of DB-API 2"
        )
    return kind


def marks_of(sql: str) -> int:
    """Return the number of placeholders in a statement."""
    return sum(mark == "?" for mark in _MARKS.findall(sql))


def styled(sql: str, paramstyle: str) -> str:
    """Return a statement with the placeholders of a package's style."""
    return sql if paramstyle == "qmark" else _MARKS.sub(_formatted, sql)


def _formatted(mark: re.Match[str]) -> str:
    """Return the placeholder of a format style, in which per cent signs are doubled."""
    text = mark.group()
    return "%s" if text == "?" else text.replace("%", "%%")


def _connected_by_sqlalchemy(url: str, connect_args: dict[str, Any]) -> Any:
    """Open a connection of the database's package, outside of any pool."""
    library = optional_library("sqlalchemy", "sqlalchemy", "sqlalchemy", "of_sqlalchemy")
    pool = library.pool.NullPool
    engine = library.create_engine(url, poolclass=pool, connect_args=connect_args)
    made = engine.raw_connection()
    connection = made.driver_connection
    made.detach()
    return connection
