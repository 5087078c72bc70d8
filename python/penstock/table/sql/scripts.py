"""Scripts: SQL statements separated by semicolons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import TokenType

from penstock.table.sql.dialect import Flink
from penstock.table.sql.parsing import refuse_characters

#: Words that END closes; a CASE outside of a statement set is closed by its semicolon, as a
#: forgotten END would otherwise keep the shell waiting.
_OPENING: Final = ("BEGIN", "CASE")


@dataclass(frozen=True)
class StatementText:
    """A statement of a script.

    Attributes:
        text: The statement, without the semicolon.
        start: The position of its first character in the script.
        line: The line in which it begins, from 1.
        column: The column in which it begins, from 1.
        is_ended: Whether a semicolon follows.
    """

    text: str
    start: int
    line: int
    column: int
    is_ended: bool

    @property
    def placed(self) -> str:
        """Return the statement, padded so that its parts have their positions in the script.

        Errors of the parser then refer to the line and the column of the script.
        """
        return "\n" * (self.line - 1) + " " * (self.column - 1) + self.text


def split_script(text: str) -> list[StatementText]:
    """Split a script into statements.

    Semicolons in texts, names, comments and statement sets do not end a statement.

    Raises:
        SqlParserException: A text or a comment does not end.
    """
    try:
        tokens = Flink().tokenize(text)
    except TokenError as error:
        refuse_characters(text, error)
    found: list[StatementText] = []
    first = last = None
    depth = 0
    for token in tokens:
        is_word = token.token_type not in (TokenType.STRING, TokenType.IDENTIFIER)
        if token.token_type == TokenType.SEMICOLON and depth == 0:
            if first is not None and last is not None:
                found.append(_statement(text, first.start, last.end, is_ended=True))
            first = None
            continue
        first = token if first is None else first
        if is_word and token.text.upper() in _OPENING[: 1 if depth == 0 else 2]:
            depth += 1
        elif is_word and token.text.upper() == "END" and depth > 0:
            depth -= 1
        last = token
    if first is not None and last is not None:
        found.append(_statement(text, first.start, last.end, is_ended=False))
    return found


def _statement(text: str, start: int, end: int, *, is_ended: bool) -> StatementText:
    before = text[:start]
    line = before.count("\n") + 1
    column = start - (before.rfind("\n") + 1) + 1
    return StatementText(text[start : end + 1], start, line, column, is_ended)
