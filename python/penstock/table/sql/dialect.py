"""Flink's SQL as a sqlglot dialect: its tokens and the syntax of its queries."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from sqlglot import Dialect, exp, parser, tokens
from sqlglot.dialects.dialect import NormalizationStrategy
from sqlglot.tokenizer_core import Token, TokenType

from penstock.table.sql.statement_parsing import StatementParsing
from penstock.table.sql.trees import (
    CastTo,
    Descriptor,
    Function,
    NamedArgument,
    TableArgument,
    TableFunction,
)
from penstock.table.sql.type_parsing import TypeParsing

#: Functions that take a table.
_OF_TABLES = ("TUMBLE", "HOP", "CUMULATE", "SESSION", "TO_CHANGELOG", "FROM_CHANGELOG")
#: Time units of EXTRACT, TIMESTAMPADD and the like.
UNITS = (
    "NANOSECOND", "MICROSECOND", "MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK",
    "MONTH", "QUARTER", "YEAR", "DECADE", "CENTURY", "MILLENNIUM", "EPOCH", "DOW", "ISODOW",
    "DOY", "ISOYEAR",
)  # fmt: skip
_GROUPINGS = {TokenType.CUBE: exp.Cube, TokenType.ROLLUP: exp.Rollup}
#: A number with an exponent, in a token that goes on to the number behind a sign.
_SUMMAND = re.compile(r"[0-9.]+[eE][+-]?[0-9]+(?=[+-])")
_INTERVAL_UNITS = ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND")


def _moved(token: Token, place: int, line: int) -> Token:
    """Move a token back to its place in a text without the space at a place."""
    if token.start >= place:
        token.start -= 1
        token.end -= 1
        token.col -= token.line == line
    return token


class FlinkTokenizer(tokens.Tokenizer):
    """Flink's tokens."""

    IDENTIFIERS: ClassVar[list[Any]] = ["`"]
    QUOTES: ClassVar[list[Any]] = ["'"]
    STRING_ESCAPES: ClassVar[list[str]] = ["'"]
    HEX_STRINGS: ClassVar[list[Any]] = [("x'", "'"), ("X'", "'")]
    UNICODE_STRINGS: ClassVar[list[Any]] = [("U&'", "'"), ("u&'", "'")]
    NESTED_COMMENTS = False
    KEYWORDS: ClassVar[dict[str, TokenType]] = {
        **tokens.Tokenizer.KEYWORDS,
        "MATCH_RECOGNIZE": TokenType.MATCH_RECOGNIZE,
        "LOCALTIMESTAMP": TokenType.VAR,
        "LOCALTIME": TokenType.VAR,
        "ARRAY": TokenType.VAR,
        "MAP": TokenType.VAR,
        "STRUCT": TokenType.VAR,
    }
    for _word in (
        "DIV", "RLIKE", "REGEXP", "GLOB", "KILL", "CACHE", "COMMENT", "PRIMARY KEY",
        "FOREIGN KEY",
        "SESSION", "PARTITIONED BY", "==", "<=>", "!=",
    ):  # fmt: skip
        KEYWORDS.pop(_word, None)
    TOKENS_PRECEDING_HINT: ClassVar[set[TokenType]] = {
        *tokens.Tokenizer.TOKENS_PRECEDING_HINT,
        TokenType.VAR,
        TokenType.IDENTIFIER,
    }
    #: Words that start statements in other dialects, which would be kept as text.
    COMMANDS: ClassVar[set[TokenType]] = set()

    def tokenize(self, sql: str) -> list[Token]:
        """Return the tokens of a text; sqlglot reads ``1e0+1`` as one number."""
        found = super().tokenize(sql)
        for token in found:
            summand = _SUMMAND.match(token.text) if token.token_type == TokenType.NUMBER else None
            if summand is not None:
                place = token.start + summand.end()
                return [
                    _moved(each, place, token.line)
                    for each in self.tokenize(f"{sql[:place]} {sql[place:]}")
                ]
        return found


class FlinkParser(TypeParsing, StatementParsing, parser.Parser):
    """Parser of Flink's SQL; functions remain calls by name, which the binder resolves."""

    SUPPORTS_TABLE_QUERY: ClassVar[bool] = True
    FUNCTIONS: ClassVar[dict[str, Any]] = {}
    NO_PAREN_FUNCTIONS: ClassVar[dict[Any, Any]] = {}
    NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        "ANY": parser.Parser.NO_PAREN_FUNCTION_PARSERS["ANY"],
        "CASE": parser.Parser.NO_PAREN_FUNCTION_PARSERS["CASE"],
        **{
            name: lambda self: self.no_argument_call()
            for name in (
                "CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "LOCALTIME",
                "LOCALTIMESTAMP", "CURRENT_ROW_TIMESTAMP", "ROW",
            )
        },
    }  # fmt: skip
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        "CAST": lambda self: self.cast_call(is_safe=False),
        "TRY_CAST": lambda self: self.cast_call(is_safe=True),
        "EXTRACT": lambda self: self.extract_call(),
        "CEIL": lambda self: self.unit_call("CEIL"),
        "CEILING": lambda self: self.unit_call("CEIL"),
        "FLOOR": lambda self: self.unit_call("FLOOR"),
        "TRIM": lambda self: self.trim_call(),
        "SUBSTRING": lambda self: self.from_for_call("SUBSTRING", ("FROM", "FOR")),
        "OVERLAY": lambda self: self.from_for_call("OVERLAY", ("PLACING", "FROM", "FOR")),
        "POSITION": lambda self: self.position_call(),
        "TIMESTAMPADD": lambda self: self.first_unit_call("TIMESTAMPADD"),
        "TIMESTAMPDIFF": lambda self: self.first_unit_call("TIMESTAMPDIFF"),
        "JSON_VALUE": lambda self: self.json_call("JSON_VALUE"),
        "JSON_QUERY": lambda self: self.json_call("JSON_QUERY"),
        "JSON_EXISTS": lambda self: self.json_call("JSON_EXISTS"),
        "JSON_OBJECT": lambda self: self.json_object_call("JSON_OBJECT"),
        "JSON_OBJECTAGG": lambda self: self.json_object_call("JSON_OBJECTAGG"),
        "JSON_ARRAY": lambda self: self.json_array_call("JSON_ARRAY"),
        "JSON_ARRAYAGG": lambda self: self.json_array_call("JSON_ARRAYAGG"),
    }
    TYPE_LITERAL_PARSERS: ClassVar[dict[Any, Any]] = {}
    ARRAY_CONSTRUCTORS: ClassVar[dict[str, Any]] = {}
    SUPPORTS_IMPLICIT_UNNEST = False
    #: ``a > 1 IS TRUE`` is ``(a > 1) IS TRUE``.
    IS_PREDICATE_PRECEDENCE = parser.IsPredicatePrecedence.LOW

    # Lists ----------------------------------------------------------------------------------------

    def _parse_csv(self, parse_method: Any, sep: TokenType = TokenType.COMMA) -> list[Any]:
        """Read a list, in which an item follows each separator."""
        item = parse_method()
        made = [] if item is None else [item]
        while self._match(sep):
            item = parse_method()
            if item is None:
                self.raise_error("an expression is missing after the comma")
            made.append(item)
        return made

    def _parse_limit(self, *arguments: Any, **settings: Any) -> Any:
        made = super()._parse_limit(*arguments, **settings)
        if isinstance(made, exp.Limit) and made.args.get("offset") is not None:
            self.raise_error("LIMIT takes one number: write LIMIT count OFFSET start")
        return made

    def _parse_group(self, *arguments: Any, **settings: Any) -> Any:
        made = super()._parse_group(*arguments, **settings)
        if made is not None and not any(made.args.values()):
            self.raise_error("GROUP BY needs an expression")
        return made

    def _parse_cube_or_rollup(self, with_prefix: bool = False) -> Any:
        kind = next((k for t, k in _GROUPINGS.items() if self._match(t)), None)
        if kind is None:
            return None
        items = [] if with_prefix else self._parse_wrapped_csv(self._parse_disjunction)
        return self.expression(kind(expressions=items))

    def _parse_grouping_set(self) -> Any:
        nested = self._parse_grouping_sets() or self._parse_cube_or_rollup()
        return nested or self._parse_disjunction()

    # Functions ------------------------------------------------------------------------------------

    def call(self, name: str, arguments: list[Any], *options: Any) -> Function:
        """Create a call."""
        return Function(this=name, expressions=arguments, options=options)

    def no_argument_call(self) -> Any:
        """Read the rest of a function without parentheses; ROW has them."""
        token = self._prev
        name = token.text.upper()
        arguments: list[Any] = []
        if self._match(TokenType.L_PAREN):
            arguments = self._parse_csv(self._parse_disjunction)
            self._match_r_paren()
        elif name == "ROW":
            self.raise_error("ROW takes its fields in parentheses")
        return self.call(name, arguments).update_positions(token)

    def cast_call(self, is_safe: bool) -> Any:
        """Read the arguments of CAST."""
        value = self._parse_disjunction()
        if not self._match(TokenType.ALIAS):
            self.raise_error("AS was expected in CAST")
        return CastTo(this=value, to=self.parse_data_type(), safe=is_safe)

    def extract_call(self) -> Any:
        """Read the arguments of EXTRACT."""
        unit = self._unit()
        self._expect(TokenType.FROM)
        return self.call("EXTRACT", [self._parse_disjunction()], unit)

    def _unit(self) -> str:
        unit = self._curr.text.upper() if self._curr else ""
        unit = unit.removeprefix("SQL_TSI_")
        if unit not in UNITS:
            self.raise_error("a unit of time was expected")
        self._advance()
        return unit

    def unit_call(self, name: str) -> Any:
        """Read the arguments of CEIL and FLOOR."""
        value = self._parse_disjunction()
        if self._match_text_seq("TO"):
            return self.call(name, [value], self._unit())
        arguments = [value]
        while self._match(TokenType.COMMA):
            arguments.append(self._parse_disjunction())
        return self.call(name, arguments)

    def first_unit_call(self, name: str) -> Any:
        """Read the arguments of TIMESTAMPADD and TIMESTAMPDIFF."""
        unit = self._unit()
        self._expect(TokenType.COMMA)
        return self.call(name, self._parse_csv(self._parse_disjunction), unit)

    def trim_call(self) -> Any:
        """Read the arguments of TRIM."""
        side = "BOTH"
        for word in ("BOTH", "LEADING", "TRAILING"):
            if self._match_text_seq(word):
                side = word
        if self._match(TokenType.FROM):
            return self.call("TRIM", [self._parse_disjunction()], side)
        first = self._parse_disjunction()
        if self._match(TokenType.FROM):
            return self.call("TRIM", [self._parse_disjunction(), first], side)
        arguments = [first]
        while self._match(TokenType.COMMA):
            arguments.append(self._parse_disjunction())
        return self.call("TRIM", arguments, side)

    def from_for_call(self, name: str, words: tuple[str, ...]) -> Any:
        """Read arguments that are separated by words or commas."""
        arguments = [self._parse_disjunction()]
        rest = list(words)
        while self._curr and self._curr.token_type != TokenType.R_PAREN:
            if not self._match(TokenType.COMMA):
                while rest and not self._match_text_seq(rest[0]):
                    rest.pop(0)
                if not rest:
                    self.raise_error(f"an argument of {name} was expected")
                rest.pop(0)
            arguments.append(self._parse_disjunction())
        return self.call(name, arguments)

    def position_call(self) -> Any:
        """Read the arguments of POSITION."""
        part = self._parse_bitwise()
        if not self._match(TokenType.IN):
            self._expect(TokenType.COMMA)
        arguments = [part, self._parse_bitwise()]
        if self._match(TokenType.FROM):
            arguments.append(self._parse_bitwise())
        return self.call("POSITION", arguments)

    def json_call(self, name: str) -> Any:
        """Read the arguments of a function with a JSON path and its error handling."""
        arguments = [self._parse_disjunction()]
        self._expect(TokenType.COMMA)
        arguments.append(self._parse_disjunction())
        options: dict[str, Any] = {}
        while self._curr and self._curr.token_type != TokenType.R_PAREN:
            if self._match_text_seq("RETURNING"):
                options["RETURNING"] = self.parse_data_type()
            elif self._match_text_seq("WITHOUT"):
                self._match_text_seq("ARRAY")
                self._match_text_seq("WRAPPER")
                options["WRAPPER"] = "WITHOUT"
            elif self._match_text_seq("WITH"):
                kind = "CONDITIONAL" if self._match_text_seq("CONDITIONAL") else "UNCONDITIONAL"
                self._match_text_seq("UNCONDITIONAL")
                self._match_text_seq("ARRAY")
                self._match_text_seq("WRAPPER")
                options["WRAPPER"] = kind
            else:
                behaviour = self._json_behaviour()
                if not self._match_text_seq("ON"):
                    self.raise_error("ON EMPTY or ON ERROR was expected")
                event = self._curr.text.upper() if self._curr else ""
                if event not in ("EMPTY", "ERROR"):
                    self.raise_error("EMPTY or ERROR was expected")
                self._advance()
                if behaviour[0] == "DEFAULT":
                    arguments.append(behaviour[1])
                    options[event] = ("DEFAULT", len(arguments) - 1)
                else:
                    options[event] = behaviour
        return self.call(name, arguments, *sorted(options.items()))

    def _json_behaviour(self) -> tuple[Any, ...]:
        if self._match_text_seq("DEFAULT"):
            return "DEFAULT", self._parse_bitwise()
        for words in (("EMPTY", "ARRAY"), ("EMPTY", "OBJECT"), ("NULL",), ("ERROR",), ("TRUE",),
                      ("FALSE",), ("UNKNOWN",)):  # fmt: skip
            if self._match_text_seq(*words):
                return (" ".join(words),)
        self.raise_error("a behaviour ON EMPTY or ON ERROR was expected")
        raise AssertionError

    def _on_null(self, default: str) -> str:
        for word in ("NULL", "ABSENT"):
            if self._match_text_seq(word, "ON", "NULL"):
                return word
        return default

    def json_object_call(self, name: str) -> Any:
        """Read keys and values of a JSON object."""
        arguments: list[Any] = []
        while self._curr and self._curr.token_type != TokenType.R_PAREN:
            if self._on_null_follows():
                break
            self._match_text_seq("KEY")
            arguments.append(self._parse_bitwise())
            if not self._match_text_seq("VALUE") and not self._match(TokenType.COLON):
                self.raise_error("VALUE was expected")
            arguments.append(self._parse_bitwise())
            if not self._match(TokenType.COMMA):
                break
        return self.call(name, arguments, self._on_null("NULL"))

    def json_array_call(self, name: str) -> Any:
        """Read the elements of a JSON array."""
        arguments: list[Any] = []
        while self._curr and self._curr.token_type != TokenType.R_PAREN:
            if self._on_null_follows():
                break
            arguments.append(self._parse_disjunction())
            if not self._match(TokenType.COMMA):
                break
        return self.call(name, arguments, self._on_null("ABSENT"))

    def _on_null_follows(self) -> bool:
        return bool(
            self._curr.text.upper() in ("NULL", "ABSENT")
            and self._next
            and self._next.text.upper() == "ON"
        )

    # Expressions ----------------------------------------------------------------------------------

    def _parse_types(
        self,
        check_func: bool = False,
        schema: bool = False,
        allow_identifiers: bool = True,
        with_collation: bool = False,
    ) -> Any:
        """Read the type before a literal; `parse_data_type` reads other types."""
        del check_func, schema, allow_identifiers, with_collation
        token, following = self._curr, self._next
        if token and following and following.token_type == TokenType.STRING:
            kind = {
                "DATE": exp.DType.DATE,
                "TIME": exp.DType.TIME,
                "TIMESTAMP": exp.DType.TIMESTAMP,
                "TIMESTAMP_LTZ": exp.DType.TIMESTAMPLTZ,
            }.get(token.text.upper())
            if kind is not None:
                self._advance()
                return exp.DataType(this=kind)
        return None

    def _parse_paren(self) -> Any:
        """Read parentheses; a unit behind a difference of times makes it an interval."""
        made = super()._parse_paren()
        if isinstance(made, exp.Paren) and isinstance(made.this, exp.Sub):
            first = self._interval_unit()
            if first:
                last = (self._interval_unit(),) if self._match_text_seq("TO") else ()
                return self.call("TIME DIFFERENCE", [made.this.left, made.this.right], first, *last)
        return made

    def _interval_unit(self) -> str:
        unit = self._curr.text.upper() if self._curr else ""
        if unit not in _INTERVAL_UNITS or self._curr.token_type == TokenType.IDENTIFIER:
            return ""
        self._advance()
        return unit

    def _parse_bracket(self, this: Any = None) -> Any:
        """Read ARRAY[…], MAP[…] or the brackets after a value."""
        if (
            isinstance(this, exp.Column)
            and not this.table
            and self._curr
            and self._curr.token_type == TokenType.L_BRACKET
            and not this.this.args.get("quoted")
            and this.name.upper() in ("ARRAY", "MAP")
        ):
            self._advance()
            arguments = self._parse_csv(self._parse_disjunction)
            if not self._match(TokenType.R_BRACKET):
                self.raise_error("']' was expected")
            made = self.call(this.name.upper(), arguments)
            made.meta.update(this.this.meta)
            return super()._parse_bracket(made)
        return super()._parse_bracket(this)

    # Relations ------------------------------------------------------------------------------------

    def _parse_table(self, *arguments: Any, **settings: Any) -> Any:
        token, following = self._curr, self._next
        if token and following and following.token_type == TokenType.L_PAREN:
            if token.token_type == TokenType.TABLE:
                self._advance(2)
                made = self._table_function()
                self._match_r_paren()
                made.set("alias", self._parse_table_alias())
                return made
            if token.text.upper() in _OF_TABLES and token.token_type != TokenType.IDENTIFIER:
                made = self._table_function()
                made.set("alias", self._parse_table_alias())
                return made
        return super()._parse_table(*arguments, **settings)

    def _table_function(self) -> Any:
        token = self._curr
        if token.text.upper() not in _OF_TABLES:
            return exp.Lateral(this=self._parse_function())
        self._advance()
        self._expect(TokenType.L_PAREN)
        arguments = self._parse_csv(self._table_argument)
        self._match_r_paren()
        made = TableFunction(this=token.text.upper(), expressions=arguments)
        return made.update_positions(token)

    def _table_argument(self) -> Any:
        if self._next and self._next.token_type == TokenType.FARROW:
            name = self._curr.text.upper()
            self._advance(2)
            return NamedArgument(this=name, expression=self._table_argument())
        if self._match(TokenType.TABLE):
            made = TableArgument(this=self._parse_table_parts())
        elif self._curr.token_type == TokenType.L_PAREN and self._next.token_type in (
            TokenType.SELECT, TokenType.WITH, TokenType.VALUES,
        ):  # fmt: skip
            made = TableArgument(this=self._parse_wrapped(self._parse_select))
        elif self._curr.text.upper() == "DESCRIPTOR":
            self._advance()
            return Descriptor(expressions=self._parse_wrapped_csv(self._parse_id_var))
        else:
            return self._parse_disjunction()
        partition: list[Any] = []
        if self._match(TokenType.PARTITION_BY):
            partition.append(self._parse_column())
            # the comma may also be the one after the table
            while self._is_column_list():
                self._advance()
                partition.append(self._parse_column())
        made.set("expressions", partition)
        return made

    def _is_column_list(self) -> bool:
        token, following = self._curr, self._next
        if token.token_type != TokenType.COMMA or following.text.upper() == "DESCRIPTOR":
            return False
        return self._tokens[self._index + 2].token_type != TokenType.FARROW

    def _parse_table_parts(self, *arguments: Any, **settings: Any) -> Any:
        start = self._index
        made = super()._parse_table_parts(*arguments, **settings)
        if made is not None and self._curr.token_type == TokenType.HINT:
            if settings.get("fast"):
                self._retreat(start)
                return None  # the slow path reads the hint
            made.meta["options"] = self.hinted_options()
        return made

    def _parse_match_recognize(self) -> Any:
        """Read MATCH_RECOGNIZE, and the WITHIN after its pattern."""
        if not self._curr or self._curr.token_type != TokenType.MATCH_RECOGNIZE:
            return None
        within = self._taken_within()
        made = super()._parse_match_recognize()
        if made is not None and within is not None:
            made.meta["within"] = within
        return made

    def _taken_within(self) -> Any:
        """Read the WITHIN of the next pattern, and remove its tokens."""
        start, depth = self._index, 0
        for place in range(start + 1, len(self._tokens)):
            token = self._tokens[place]
            depth += (token.token_type == TokenType.L_PAREN) - (
                token.token_type == TokenType.R_PAREN
            )
            if depth == 0:
                return None
            is_behind_pattern = self._tokens[place - 1].token_type == TokenType.R_PAREN
            if depth == 1 and is_behind_pattern and token.text.upper() == "WITHIN":
                self._advance(place + 1 - start)
                interval = self._parse_interval()
                if interval is None:
                    self.raise_error("WITHIN takes an INTERVAL")
                del self._tokens[place : self._index]
                self._tokens_size = len(self._tokens)
                self._retreat(start)
                return interval
        return None

    def _parse_hint(self) -> Any:
        """Read hints after SELECT: STATE_TTL; hints that select a join do not affect results."""
        if not self._match(TokenType.HINT):
            return None
        times = self.hinted_state_ttl(self._prev)
        if not times:
            return None
        hint = exp.Hint(expressions=[])
        hint.meta["state_ttl_ms"] = times
        return hint


class Flink(Dialect):
    """Flink's SQL."""

    NORMALIZATION_STRATEGY = NormalizationStrategy.CASE_SENSITIVE
    NULL_ORDERING = "nulls_are_small"
    Tokenizer = FlinkTokenizer
    tokenizer_class = FlinkTokenizer
    parser_class = FlinkParser  # type: ignore[assignment]
    Parser = FlinkParser
