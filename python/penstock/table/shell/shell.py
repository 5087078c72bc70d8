"""SqlShell: executes statements one by one, prints their results and tracks their jobs."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from penstock.errors import PenstockError
from penstock.table.exceptions import SqlParserException, TableException
from penstock.table.options import table_options as options
from penstock.table.options.time_zones import time_zone
from penstock.table.result_kind import ResultKind
from penstock.table.shell.results import ResultView
from penstock.table.shell.settings import ShellSettings, unquoted_reset, unquoted_setting
from penstock.table.sql import statements as s
from penstock.table.sql.parsing import parse_statement
from penstock.table.sql.scripts import StatementText, split_script
from penstock.table.table_result.table_result import (
    InsertResult,
    QueryResult,
    StaticResult,
    TextResult,
)
from penstock.table.types import DataTypes

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.common.job_client import JobClient
    from penstock.common.job_status import JobStatus
    from penstock.table.table_environment.table_environment import TableEnvironment
    from penstock.table.table_result.table_result import TableResult

HELP: Final = f"""\
SELECT …;                    run a query and show its rows; Ctrl-C cancels it
INSERT INTO …;               start a job that writes a table
EXECUTE STATEMENT SET BEGIN … END;    start one job that writes several tables
CREATE, ALTER, DROP, USE, SHOW, DESCRIBE, EXPLAIN …;
SET 'key' = 'value';         set an option; SET; lists them
RESET 'key';                 forget an option; RESET; forgets all
SHOW JOBS;                   list the jobs of this shell
STOP JOB 'id' [WITH SAVEPOINT];
CLEAR; HELP; QUIT;           QUIT is EXIT as well

A statement that ends with \\G instead of ; shows each row as a list of columns.
'{options.RESULT_MODE}' is tableau, changelog (a line for each change) or table (the \
rows that are left)."""

_STOP: Final = re.compile(
    r"STOP\s+JOB\s+'([^']+)'(\s+WITH\s+SAVEPOINT)?(\s+WITH\s+DRAIN)?", re.IGNORECASE
)
_JARS: Final = re.compile(r"(ADD|REMOVE)\s+JAR\b", re.IGNORECASE)


class SqlShell:
    """Executes statements in one environment.

    Args:
        environment: The environment.
        write: Prints a line of results.
        is_chatty: Whether statements without rows are acknowledged.

    Attributes:
        jobs: The jobs that insertions have started, by id, with the names of their tables.
        has_quit: Whether a statement ended the shell.
    """

    def __init__(
        self,
        environment: TableEnvironment,
        *,
        write: Callable[[str], None] = print,
        is_chatty: bool = False,
    ) -> None:
        self.environment = environment
        self.settings = ShellSettings(environment)
        self.jobs: dict[str, tuple[str, JobClient]] = {}
        self.has_quit = False
        self._write = write
        self._is_chatty = is_chatty

    @property
    def is_verbose(self) -> bool:
        """True if errors are shown with tracebacks."""
        verbose: bool = self.settings.get(options.VERBOSE)
        return verbose

    def run_script(self, text: str) -> None:
        """Execute all statements of a script; the first failed one ends it.

        Raises:
            SqlParserException: A text or a comment does not end.
            StatementError: A statement failed.
        """
        for statement in split_script(text):
            self.execute(statement)
            if self.has_quit:
                return

    def execute(self, statement: StatementText, *, is_vertical: bool = False) -> None:
        """Execute a statement.

        Raises:
            StatementError: The statement failed.
        """
        try:
            self._execute(statement, is_vertical)
        except Exception as error:
            raise StatementError(statement, error) from error

    def _execute(self, statement: StatementText, is_vertical: bool) -> None:
        text = statement.text
        command = " ".join(text.upper().split())
        if command in ("QUIT", "EXIT"):
            self.has_quit = True
        elif command == "HELP":
            self._write(HELP)
        elif command == "CLEAR":
            self._write("\x1b[2J\x1b[H")
        elif command == "SHOW JOBS":
            self._show(self._job_list())
        elif (stop := _STOP.fullmatch(text.strip())) is not None:
            self._stop(stop[1], with_savepoint=bool(stop[2]), drain=bool(stop[3]))
        elif _JARS.match(text):
            raise TableException(
                "penstock has no JVM, so it cannot load a JAR: connectors and formats are built "
                "in, and functions are CREATE FUNCTION … LANGUAGE PYTHON"
            )
        elif (pair := unquoted_setting(text)) is not None:
            self._set(*pair)
        elif (key := unquoted_reset(text)) is not None:
            self._reset(key)
        elif command.startswith("STOP JOB"):
            raise SqlParserException(
                f"Invalid statement {text!r}: write STOP JOB 'id' [WITH SAVEPOINT [WITH DRAIN]], "
                "with an id that SHOW JOBS lists"
            )
        else:
            self._run(parse_statement(statement.placed), statement.placed, is_vertical)

    def _run(self, parsed: s.Statement, text: str, is_vertical: bool) -> None:
        match parsed:
            case s.SetOption(None):
                for key, value in self.settings.all().items():
                    self._write(f"'{key}' = '{value}'")
            case s.SetOption(key, value):
                self._set(key or "", value or "")
            case s.ResetOption(key):
                self._reset(key)
            case _:
                self._show(self.environment.execute_sql(text), is_vertical=is_vertical)

    def _set(self, key: str, value: str) -> None:
        self.settings.set(key, value)
        self._acknowledge()

    def _reset(self, key: str | None) -> None:
        self.settings.reset(key)
        self._acknowledge()

    def _acknowledge(self) -> None:
        if self._is_chatty:
            self._write("OK")

    # Results ----------------------------------------------------------------------------------

    def _show(self, result: TableResult, *, is_vertical: bool = False) -> None:
        if isinstance(result, InsertResult):
            self._keep(result)
            return
        if result.get_result_kind() == ResultKind.SUCCESS:
            self._acknowledge()
            return
        zone = time_zone(self.environment.get_config().get_local_timezone())
        view = ResultView(result, zone, self._write)
        if is_vertical:
            view.vertical()
        elif isinstance(result, QueryResult):
            mode = self.settings.get(options.RESULT_MODE)
            view.show(mode, self.settings.get(options.MAX_ROWS))
        elif isinstance(result, TextResult):
            self._write(result.text)
        else:
            result.print()

    def _keep(self, result: InsertResult) -> None:
        client = result.get_job_client()
        assert client is not None
        job_id = str(client.get_job_id())
        names = ", ".join(result.get_table_schema().get_field_names())
        self.jobs[job_id] = (names, client)
        if self._is_chatty:
            self._write(f"Job {job_id} writes {names}")
        if (self.environment.get_config().get(options.DML_SYNC, "false") or "").lower() == "true":
            try:
                result.wait()
            except KeyboardInterrupt:
                client.cancel().result()
                raise

    # Jobs -------------------------------------------------------------------------------------

    def _job_list(self) -> TableResult:
        rows = [
            [job_id, names, _status(client).name] for job_id, (names, client) in self.jobs.items()
        ]
        kinds = [DataTypes.STRING()] * 3
        return StaticResult(["job id", "tables", "status"], kinds, rows)

    def _stop(self, job_id: str, *, with_savepoint: bool, drain: bool) -> None:
        found = self.jobs.get(job_id)
        if found is None:
            raise TableException(
                f"This shell has started no job {job_id!r}; SHOW JOBS lists those that it has"
            )
        client: Any = found[1]
        if not with_savepoint:
            client.cancel().result()
            self._acknowledge()
            return
        path = client.stop_with_savepoint(drain, None).result()
        self._show(StaticResult(["savepoint path"], [DataTypes.STRING()], [[path]]))

    def running_jobs(self) -> list[str]:
        """Return the ids of the jobs that have not ended."""
        return [
            job_id
            for job_id, (_, client) in self.jobs.items()
            if not _status(client).is_globally_terminal_state()
        ]

    def wait_for_jobs(self) -> None:
        """Wait until all jobs have ended.

        Raises:
            Exception: The error of a failed job.
        """
        for _, client in self.jobs.values():
            client.wait_for_result()

    def cancel_jobs(self) -> None:
        """Cancel the jobs that have not ended."""
        for job_id in self.running_jobs():
            # A job may end in the meantime; then there is nothing to cancel.
            with suppress(PenstockError):
                self.jobs[job_id][1].cancel().result()


class StatementError(Exception):
    """A failed statement of a script.

    Args:
        statement: The statement.
        error: The reason.
    """

    def __init__(self, statement: StatementText, error: BaseException) -> None:
        super().__init__(str(error))
        self.statement = statement
        self.error = error


def _status(client: Any) -> JobStatus:
    status: JobStatus = client.get_job_status().result()
    return status
