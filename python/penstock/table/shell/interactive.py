"""The interactive shell: reads lines with history and completion until a statement ends."""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.table.exceptions import SqlParserException
from penstock.table.functions.listed_names import built_in_names
from penstock.table.shell.shell import StatementError
from penstock.table.sql.scripts import split_script

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.table.shell.shell import SqlShell

PROMPT: Final = "penstock> "
CONTINUED: Final = "       -> "
HISTORY: Final = "~/.penstock_sql_history"
_LONGEST_HISTORY: Final = 1000

#: A statement that ends with backslash and G instead of a semicolon.
_VERTICAL: Final = re.compile(r"\\G\s*\Z", re.IGNORECASE)

_KEYWORDS: Final = """
    ALTER AND AS BETWEEN BY CASE CAST CREATE CROSS CUBE DESCRIBE DESCRIPTOR DISTINCT DROP ELSE END
    EXCEPT EXECUTE EXISTS EXPLAIN FALSE FOR FROM FULL GROUP HAVING HELP HOP IN INNER INSERT
    INTERSECT INTERVAL INTO IS JOIN LATERAL LEFT LIKE LIMIT NOT NULL ON OR ORDER OUTER OVER
    PARTITION PARTITIONED PRIMARY QUIT RESET RIGHT ROLLUP SELECT SESSION SET SHOW STATEMENT TABLE
    TABLES TEMPORARY THEN TRUE TUMBLE UNION UNNEST USE VALUES VIEW WATERMARK WHEN WHERE WINDOW
    WITH
    """.split()  # noqa: SIM905 - the lines read better than a hundred quotes


class InteractiveShell:
    """Reads statements line by line and runs them in a shell.

    Args:
        shell: The shell.
        read_line: Returns a line for a prompt; raises EOFError at the end.
        tell: Prints the error of a statement.
    """

    def __init__(
        self,
        shell: SqlShell,
        *,
        read_line: Callable[[str], str] = input,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        self._shell = shell
        self._read_line = read_line
        self._tell = tell or _to_standard_error

    def run(self) -> None:
        """Read and execute statements until QUIT or the end of the input."""
        text = ""
        while not self._shell.has_quit:
            try:
                line = self._read_line(CONTINUED if text else PROMPT)
            except EOFError:
                if text:
                    self._tell("The last statement was not executed: it has no ; at its end")
                return
            except KeyboardInterrupt:
                text = ""
                print()
                continue
            text = f"{text}\n{line}" if text else line
            text = self._taken(text)

    def _taken(self, text: str) -> str:
        """Run the complete statements, and return the rest of the text."""
        is_vertical = _VERTICAL.search(text) is not None
        if is_vertical:
            text = _VERTICAL.sub(";", text)
        try:
            statements = split_script(text)
        except SqlParserException:
            # A string, a name or a comment continues on the next line.
            return text
        for statement in statements:
            if not statement.is_ended and statement.text.upper() not in ("QUIT", "EXIT", "HELP"):
                return text[statement.start :]
            try:
                self._shell.execute(statement, is_vertical=is_vertical)
            except StatementError as failed:
                self._tell(told(failed, is_verbose=self._shell.is_verbose))
            except KeyboardInterrupt:
                self._tell("The query was cancelled")
            if self._shell.has_quit:
                return ""
        return ""


def told(failed: StatementError, *, is_verbose: bool = False) -> str:
    """Format the error of a statement; with a traceback if verbose."""
    if is_verbose:
        import traceback

        return "".join(traceback.format_exception(failed.error)).rstrip()
    error = failed.error
    return f"[ERROR] {type(error).__name__}: {error}".rstrip()


def _to_standard_error(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class Completer:
    """Completes keywords, and the names of tables, columns, functions and options.

    Args:
        shell: The shell with the catalogs.
        text: Returns the current line.
    """

    def __init__(self, shell: SqlShell, text: Callable[[], str]) -> None:
        self._environment = shell.environment
        self._text = text
        self._found: list[str] = []

    def __call__(self, word: str, number: int) -> str | None:
        """Return the completion with a number, or None after the last one; readline calls this."""
        if number == 0:
            self._found = self.completions(word)
        return self._found[number] if number < len(self._found) else None

    def completions(self, word: str) -> list[str]:
        """Return the completions of a word, in order."""
        given = word.lower()
        names = [*self._environment.list_tables(), *self._columns()]
        found = {name for name in names if name.lower().startswith(given)}
        if given:
            keywords = {word for word in _KEYWORDS if word.lower().startswith(given)}
            own = {name.upper() for name in self._environment.list_user_defined_functions()}
            functions = built_in_names() | own
            found |= keywords | {n for n in functions if n.lower().startswith(given)}
        return sorted(found)

    def _columns(self) -> list[str]:
        """Return the columns of the tables in the line."""
        line = self._text().lower()
        columns: list[str] = []
        for name in self._environment.list_tables():
            if re.search(rf"\b{re.escape(name.lower())}\b", line):
                # A table with an invalid declaration has no columns to offer.
                with suppress(Exception):
                    columns += self._environment.from_path(name).get_schema().get_field_names()
        return columns


def with_line_editing(shell: SqlShell) -> Callable[[], None]:
    """Configure history and completion for ``input``; return the function that saves the history.

    Without readline, as on some systems, lines are read without editing.
    """
    try:
        import readline
    except ImportError:
        return lambda: None
    path = Path(os.environ.get("PENSTOCK_SQL_HISTORY", HISTORY)).expanduser()
    # Before the first use there is no history.
    with suppress(OSError):
        readline.read_history_file(path)
    readline.set_history_length(_LONGEST_HISTORY)
    readline.set_completer(Completer(shell, readline.get_line_buffer))
    readline.set_completer_delims(" \t\n,()=<>+-*/;'")
    readline.parse_and_bind("tab: complete")

    def keep() -> None:
        # A home folder may be read-only; then the history is not saved.
        with suppress(OSError):
            readline.write_history_file(path)

    return keep


def run_interactively(shell: SqlShell, **given: Any) -> None:
    """Run the shell with line editing on standard input."""
    keep = with_line_editing(shell)
    try:
        InteractiveShell(shell, **given).run()
    finally:
        keep()
