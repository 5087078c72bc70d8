"""Parsing of statements, expressions and types."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NoReturn

from sqlglot import exp
from sqlglot.errors import ErrorLevel, ParseError, TokenError
from sqlglot.tokenizer_core import TokenType

from penstock.table.exceptions import InvalidTypeError, SqlParserException, marked
from penstock.table.sql.dialect import Flink, FlinkParser
from penstock.table.sql.foreign_clauses import INSTEAD, foreign_clause
from penstock.table.sql.reserved_words import RESERVED
from penstock.table.sql.statements import Alter, Query, Statement

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token

    from penstock.table.types import DataType

#: Descriptions of missing parts, by the prefix of the parser's message.
_WANTED: Final = (
    ("Required keyword", "an expression is missing"),
    ("Expected table name", "a table was expected"),
    ("Expected type", "a type was expected"),
    ("Expecting )", "')' was expected"),
)
#: Clauses that need FROM.
_AFTER_FROM: Final = ("where", "group", "having")
_TOKEN_PLACE: Final = re.compile(r"(.*) from \d+:(\d+)")


@lru_cache(maxsize=1)
def _dialect() -> Flink:
    return Flink()


def parse_statement(text: str) -> Statement:
    """Parse a single statement.

    Raises:
        SqlParserException: The text is not a single statement.
    """
    parser, tokens = _start(text)

    def read() -> Any:
        return parser.parse_flink_statement()

    statement = _finish(text, parser, tokens, read, may_end_with_semicolon=True)
    trees = [getattr(statement, part, None) for part in ("tree", "query")]
    if isinstance(statement, Alter) and (statement.kind, statement.action) == ("VIEW", "AS"):
        trees.append(statement.arguments[0])
    for tree in trees:
        if isinstance(tree, exp.Expr):
            _check_names(text, tree)
    assert isinstance(statement, Statement)
    return statement


def parse_query(text: str) -> Any:
    """Parse a query.

    Raises:
        SqlParserException: The text is malformed.
    """
    statement = parse_statement(text)
    if not isinstance(statement, Query):
        raise SqlParserException(
            f"a query was expected, the statement is a {type(statement).__name__}: {text.strip()}"
        )
    return statement.tree


def parse_expression(text: str) -> Any:
    """Parse an expression.

    Raises:
        SqlParserException: The text is malformed.
    """
    parser, tokens = _start(text)
    return _finish(text, parser, tokens, lambda: parser._parse_disjunction())


def parse_type(text: str) -> DataType:
    """Parse a type.

    Raises:
        SqlParserException: The text is malformed.
    """
    parser, tokens = _start(text)
    # Fields of types outside statements may have reserved names, as in Flink.
    parser.reserved_words = frozenset()
    kind: DataType = _finish(text, parser, tokens, lambda: parser.parse_data_type())
    return kind


def place_of(tree: Any) -> tuple[int, int] | None:
    """Return line and column of a part of a tree, from 1; None if its position is unknown."""
    for part in tree.walk(bfs=True) if isinstance(tree, exp.Expr) else ():
        meta = part._meta or {}
        if "line" in meta and "start" in meta:
            length = meta["end"] - meta["start"] + 1
            return meta["line"], meta["col"] - length + 1
    return None


def _start(text: str) -> tuple[FlinkParser, list[Token]]:
    dialect = _dialect()
    try:
        tokens = dialect.tokenize(text)
    except TokenError as error:
        refuse_characters(text, error)
    parser = FlinkParser(dialect=dialect, error_level=ErrorLevel.IMMEDIATE)
    return parser, tokens


def _finish(
    text: str,
    parser: FlinkParser,
    tokens: list[Token],
    read: Any,
    *,
    may_end_with_semicolon: bool = False,
) -> Any:
    if may_end_with_semicolon:
        while tokens and tokens[-1].token_type == TokenType.SEMICOLON:
            tokens = tokens[:-1]
    parser.reset()
    parser.sql = text
    _feed(parser, tokens)
    try:
        result = read()
    except ParseError as error:
        _refuse(text, error, tokens[-1] if 0 < len(tokens) <= parser._index else None)
    except InvalidTypeError as error:
        raise SqlParserException(f"SQL parse failed. {error}") from error
    if parser._index < len(tokens):
        token = tokens[parser._index]
        _refuse_token(text, token)
    if result is None:
        raise SqlParserException(f'SQL parse failed. Encountered "<EOF>" in {text!r}')
    return result


def _feed(parser: Any, tokens: list[Token]) -> None:
    parser._tokens = tokens
    parser._tokens_size = len(tokens)
    parser._index = -1
    parser._advance()


def _refuse(text: str, error: ParseError, last: Token | None) -> NoReturn:
    """Raise the error of the parser, which calls the end of the text by the last token."""
    found = error.errors[0] if error.errors else {}
    line, column = found.get("line") or 1, found.get("col") or 1
    shown = found.get("highlight") or "<EOF>"
    if last is not None and (line, column) == (last.line, last.col):
        shown, column = "<EOF>", last.col + 1
    else:
        column -= max(len(shown) - 1, 0)
    what = found.get("description") or str(error)
    what = next((ours for theirs, ours in _WANTED if what.startswith(theirs)), what)
    if "Encountered" not in what:
        what = f'Encountered "{shown}": {what}'
    raise SqlParserException(
        f"SQL parse failed. {what} at line {line}, column {max(column, 1)}.\n"
        f"{marked(text, line, column)}"
    )


def refuse_characters(text: str, error: TokenError) -> NoReturn:
    """Raise the error of a text that is not made of tokens.

    Raises:
        SqlParserException: Always.
    """
    found = _TOKEN_PLACE.fullmatch(str(error.__cause__))
    if found is None:
        raise SqlParserException(f'SQL parse failed. Encountered "<EOF>" in {text!r}') from None
    place = int(found[2])
    line, column = text.count("\n", 0, place) + 1, place - text.rfind("\n", 0, place)
    raise SqlParserException(
        f"SQL parse failed. Lexical error at line {line}, column {column}: {found[1]}.\n"
        f"{marked(text, line, column)}"
    ) from None


def _refuse_token(text: str, token: Token, why: str = "") -> NoReturn:
    column = token.col - len(token.text) + 1
    raise SqlParserException(
        f'SQL parse failed. Encountered "{token.text}"{why} at line {token.line}, '
        f"column {column}.\n{marked(text, token.line, column)}"
    )


def _check_names(text: str, tree: Any) -> None:
    if any(not select.expressions for select in tree.find_all(exp.Select)):
        raise SqlParserException(
            f'SQL parse failed. Encountered "SELECT" without columns: name some, or write *.\n'
            f"{text.strip()}"
        )
    for select in tree.find_all(exp.Select):
        clause = next((c for c in _AFTER_FROM if select.args.get(c)), None)
        if clause is not None and not select.args.get("from_"):
            raise SqlParserException(
                f'SQL parse failed. Encountered "{clause.upper()}" without FROM: write FROM and a '
                f"table before it, or (VALUES (0)).\n{text.strip()}"
            )
    foreign = foreign_clause(tree)
    if foreign is not None:
        raise SqlParserException(
            f'SQL parse failed. Encountered "{foreign}": the clause is not supported'
            f"{INSTEAD.get(foreign, '')}.\n{text.strip()}"
        )
    for name in tree.find_all(exp.Identifier):
        if name.args.get("quoted") or str(name.this).upper() not in RESERVED:
            continue
        meta = name._meta or {}
        line = meta.get("line", 1)
        column = meta.get("col", 1) - len(name.this) + 1
        raise SqlParserException(
            f'SQL parse failed. Encountered "{name.this}" at line {line}, column {column}: the '
            f"word is reserved, write `{name.this}` to use it as a name.\n"
            f"{marked(text, line, column)}"
        )
