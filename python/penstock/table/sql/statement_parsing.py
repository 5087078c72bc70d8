"""Statements other than queries: definitions, changes, INSERT, SHOW and the like."""

from __future__ import annotations

import difflib
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NoReturn

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from penstock.common.options.value_types import DurationType
from penstock.table.sql import statements
from penstock.table.sql.job_parsing import JobParsing
from penstock.table.sql.name_parsing import NameParsing
from penstock.table.sql.partition_parsing import PartitionParsing
from penstock.table.sql.trees import StatementTree

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_HINT: Final = re.compile(r"/\*\+\s*OPTIONS\s*\((.*)\)\s*\*/", re.IGNORECASE | re.DOTALL)
_STATE_TTL: Final = re.compile(r"\bSTATE_TTL\s*\(([^)]*)\)", re.IGNORECASE)
_HINTED: Final = re.compile(r"'((?:[^']|'')*)'\s*=\s*'((?:[^']|'')*)'")
_QUERIES: Final = (
    TokenType.SELECT, TokenType.WITH, TokenType.VALUES, TokenType.L_PAREN, TokenType.TABLE,
)  # fmt: skip
"""The tokens with which queries begin."""

_MOST_LISTED: Final = 10
_KINDS = ("TABLE", "VIEW", "FUNCTION", "DATABASE", "CATALOG")
_SHOWN_WITH_PATH = ("CREATE TABLE", "CREATE VIEW", "CREATE CATALOG", "CREATE FUNCTION")
_SHOWN = (
    "CURRENT CATALOG", "CURRENT DATABASE", "FULL MODULES", "USER FUNCTIONS", "CATALOGS",
    "DATABASES", "TABLES", "VIEWS", "FUNCTIONS", "MODULES", "COLUMNS", "PARTITIONS", "JARS",
    "JOBS", "PROCEDURES", "MODELS", "MATERIALIZED TABLES",
)  # fmt: skip


_NO_CHANGES: Final = "write the changing result of a query into the table instead"

REFUSED_STATEMENTS: Final = {
    ("ANALYZE",): "plans do not use statistics",
    ("TRUNCATE",): "a statement cannot empty the table of a connector",
    ("DELETE",): _NO_CHANGES,
    ("UPDATE",): _NO_CHANGES,
    ("MERGE",): _NO_CHANGES,
    ("CALL",): "there are no procedures",
    ("CREATE", "MATERIALIZED"): "CREATE TABLE … AS writes the rows of a query",
    ("CREATE", "OR", "ALTER"): "CREATE TABLE … AS writes the rows of a query",
    ("CREATE", "MODEL"): "a Python function can call a model",
    ("CREATE", "TEMPORARY", "MODEL"): "a Python function can call a model",
    ("CREATE", "CONNECTION"): "the options of a table name its server",
    ("ADD", "JAR"): "there is no JVM",
    ("REMOVE", "JAR"): "there is no JVM",
}
"""Unsupported statements of Flink, by their first words, and the reasons."""


class StatementParsing(NameParsing, PartitionParsing, JobParsing):
    """The part of the parser for statements; a base of the dialect's parser."""

    def _parse_statement(self: Any) -> Any:
        statement = self.parse_flink_statement()
        if isinstance(statement, statements.Query):
            return statement.tree
        return StatementTree(this=statement)

    def parse_flink_statement(self: Any) -> statements.Statement:
        """Read one statement."""
        token = self._curr
        if not token:
            self.raise_error('Encountered "<EOF>"')
        word = token.text.upper()
        self._refuse_statement()
        readers: dict[str, Callable[[], statements.Statement]] = {
            "CREATE": self._read_create,
            "DROP": self._read_drop,
            "ALTER": self._read_alter,
            "USE": self._read_use,
            "SHOW": self._read_show,
            "DESCRIBE": self._read_describe,
            "DESC": self._read_describe,
            "EXPLAIN": self._read_explain,
            "INSERT": self._read_insert,
            "EXECUTE": self.read_execute,
            "COMPILE": self.read_compile,
            "BEGIN": self.read_begin,
            "SET": self._read_set,
            "RESET": self._read_reset,
            "LOAD": self._read_load,
            "UNLOAD": self._read_load,
            "REPLACE": self._read_replace,
        }
        if token.token_type != TokenType.IDENTIFIER and word in readers:
            self._advance()
            return readers[word]()
        if token.token_type not in _QUERIES:
            self._refuse_word([*readers, "SELECT", "VALUES", "WITH"])
        return statements.Query(self.parse_query())

    def _refuse_word(self: Any, known: Sequence[str], before: str = "") -> NoReturn:
        """Reject the next words, and name the nearest known ones, or all of few."""
        following = self._tokens[self._index : self._index + 2]
        words = [token.text.upper() for token in following]
        hint = ""
        for number in range(len(words), 0, -1):
            near = difflib.get_close_matches(" ".join(words[:number]), known, 1, 0.7)
            if near:
                hint = f" (did you mean {before}{near[0]}?)"
                break
        else:
            if len(known) < _MOST_LISTED:
                hint = f" ({', '.join(known[:-1])} or {known[-1]} was expected)"
        self.raise_error(f'Encountered "{self._curr.text if self._curr else "<EOF>"}"{hint}')
        raise AssertionError

    def _refuse_statement(self: Any) -> None:
        """Reject an unsupported statement of Flink, with the reason."""
        following = self._tokens[self._index : self._index + 3]
        words = tuple(token.text.upper() for token in following)
        for refused, why in REFUSED_STATEMENTS.items():
            if words[: len(refused)] == refused:
                self.raise_error(
                    f'Encountered "{self._curr.text}": {" ".join(refused)} is not supported, {why}'
                )

    def parse_query(self: Any) -> Any:
        """Read a query."""
        token = self._curr
        if not token or token.token_type not in _QUERIES:
            text = token.text if token else "<EOF>"
            self.raise_error(f'Encountered "{text}"', token)
        tree = self._parse_select(nested=False, table=False)
        if tree is None:
            tree = self._parse_expression()
        tree = self._parse_set_operations(tree)
        return self._parse_query_modifiers(tree)

    # Literals -------------------------------------------------------------------------------------

    def _text_literal(self: Any) -> str:
        token = self._curr
        if not self._match(TokenType.STRING):
            self.raise_error("a text in quotes was expected")
        return str(token.text)

    def _word(self: Any, *words: str) -> bool:
        """Read words if they are next."""
        return bool(self._match_text_seq(*words))

    def _expect_word(self: Any, *words: str) -> None:
        if not self._match_text_seq(*words):
            text = self._curr.text if self._curr else "<EOF>"
            self.raise_error(f'Encountered "{text}", {" ".join(words)} was expected')

    def _options(self: Any) -> dict[str, str]:
        """Read ('key' = 'value', …)."""
        self._expect(TokenType.L_PAREN)
        options: dict[str, str] = {}
        while self._curr and self._curr.token_type != TokenType.R_PAREN:
            key = self._text_literal()
            self._expect(TokenType.EQ)
            options[key] = self._text_literal()
            if not self._match(TokenType.COMMA):
                break
        self._expect(TokenType.R_PAREN)
        return options

    def hinted_options(self: Any) -> dict[str, str]:
        """Read a hint, which is a single token: OPTIONS('key' = 'value', …)."""
        token = self._curr
        self._advance()
        found = _HINT.fullmatch(token.text)
        if found is None:
            self.raise_error("only OPTIONS('key' = 'value', …) is known as a hint here", token)
            raise AssertionError
        pairs = _HINTED.findall(found[1])
        return {k.replace("''", "'"): v.replace("''", "'") for k, v in pairs}

    def hinted_state_ttl(self: Any, token: Any) -> dict[str, int]:
        """Return the state retention in ms of a hint by table: STATE_TTL('name' = '1 d', …)."""
        found = _STATE_TTL.search(token.text)
        times = {}
        for name, text in _HINTED.findall(found[1]) if found else ():
            try:
                times[name] = DurationType().parse(text)
            except ValueError as error:
                self.raise_error(f"invalid time {text!r} of '{name}' in STATE_TTL: {error}", token)
        if found and not times:
            self.raise_error(
                "STATE_TTL takes 'table' = 'time' pairs, as in 'orders' = '1 d'", token
            )
        return times

    def _comment(self: Any) -> str | None:
        return self._text_literal() if self._word("COMMENT") else None

    def _expression_with_text(self: Any) -> tuple[Any, str]:
        start = self._curr
        tree = self._parse_disjunction()
        if tree is None:
            self.raise_error("an expression was expected")
        return tree, self._find_sql(start, self._prev)

    # CREATE ---------------------------------------------------------------------------------------

    def _read_create(self: Any) -> statements.Statement:
        or_replace = self._word("OR", "REPLACE")
        is_temporary = self._word("TEMPORARY")
        is_system = is_temporary and self._word("SYSTEM")
        if self._word("TABLE"):
            return self._read_create_table(is_temporary, or_replace)
        if self._word("VIEW"):
            return self._read_create_view(is_temporary)
        if self._word("FUNCTION"):
            return self._read_create_function(is_temporary, is_system)
        if self._word("DATABASE"):
            missing = self._word("IF", "NOT", "EXISTS")
            path, comment = self.parse_path(), self._comment()
            options = self._options() if self._word("WITH") else {}
            return statements.CreateDatabase(path, comment, options, missing)
        if self._word("CATALOG"):
            missing = self._word("IF", "NOT", "EXISTS")
            name, comment = self.parse_name(), self._comment()
            options = self._options() if self._word("WITH") else {}
            return statements.CreateCatalog(name, comment, options, missing)
        self._refuse_word(_KINDS, "CREATE ")
        raise AssertionError

    def _read_replace(self: Any) -> statements.Statement:
        self._expect_word("TABLE")
        made = self._read_create_table(False, or_replace=True)
        if made.query is None:
            self.raise_error("REPLACE TABLE needs AS and a query")
        replaced: statements.Statement = replace(made, must_exist=True)
        return replaced

    def _read_create_table(self: Any, is_temporary: bool, or_replace: bool) -> Any:
        if_not_exists = self._word("IF", "NOT", "EXISTS")
        path = self.parse_path()
        parts: dict[str, Any] = {}
        if self._curr and self._curr.token_type == TokenType.L_PAREN:
            parts = self._table_elements()
        parts["comment"] = self._comment()
        if self._word("DISTRIBUTED"):
            parts["distribution"] = self.read_distribution()
        if self._word("PARTITIONED", "BY"):
            parts["partition_keys"] = self._names()
        if self._word("WITH"):
            parts["options"] = self._options()
        if self._word("LIKE"):
            parts["like"] = self._read_like()
        elif self._word("AS"):
            parts["query"] = self.parse_query()
        if parts.get("query_columns") and (parts["columns"] or "query" not in parts):
            token = parts["query_columns"][0]
            self.raise_error(
                f"column '{token.text}' needs a type, unless all are names of AS SELECT", token
            )
        parts["query_columns"] = tuple(token.text for token in parts.get("query_columns", ()))
        return statements.CreateTable(
            path,
            is_temporary=is_temporary,
            if_not_exists=if_not_exists,
            or_replace=or_replace,
            **parts,
        )

    def _read_like(self: Any) -> statements.LikeClause:
        path = self.parse_path()
        options = []
        if self._match(TokenType.L_PAREN):
            while self._curr and self._curr.token_type != TokenType.R_PAREN:
                verb = self._any_word("an option of LIKE")
                if self._curr.token_type == TokenType.R_PAREN:
                    self.raise_error("a part of the table was expected")
                options.append((verb, self._any_word("a part of the table")))
            self._expect(TokenType.R_PAREN)
        return statements.LikeClause(path, tuple(options))

    def _table_elements(self: Any) -> dict[str, Any]:
        """Read columns, watermarks and keys in parentheses."""
        self._expect(TokenType.L_PAREN)
        parts: dict[str, Any] = {"columns": [], "watermarks": [], "query_columns": []}
        while True:
            self._table_element(parts)
            if not self._match(TokenType.COMMA):
                break
        self._expect(TokenType.R_PAREN)
        for part in ("columns", "watermarks", "query_columns"):
            parts[part] = tuple(parts[part])
        return parts

    def _table_element(self: Any, parts: dict[str, Any]) -> None:
        if self._word("WATERMARK", "FOR"):
            column = self.parse_path()
            self._expect_word("AS")
            tree, text = self._expression_with_text()
            parts["watermarks"].append(statements.WatermarkDefinition(column, tree, text))
        elif self._word("CONSTRAINT"):
            parts["key_name"] = self.parse_name()
            self._expect_word("PRIMARY", "KEY")
            self._key(parts, self._names())
        elif self._word("PRIMARY", "KEY"):
            self._key(parts, self._names())
        else:
            self._column(parts)

    def _key(self: Any, parts: dict[str, Any], names: tuple[str, ...]) -> None:
        if "primary_key" in parts:
            self.raise_error("a table has one PRIMARY KEY")
        parts["primary_key"] = names
        parts["is_key_enforced"] = not self._word("NOT", "ENFORCED")
        if parts["is_key_enforced"]:
            self._word("ENFORCED")

    def _column(self: Any, parts: dict[str, Any]) -> None:
        name = self.parse_name()
        is_end = self._curr and self._curr.token_type in (TokenType.COMMA, TokenType.R_PAREN)
        if is_end and "query_columns" in parts:
            parts["query_columns"].append(self._prev)
            return
        self._column_of(name, parts)
        if "positions" not in parts:
            return
        if self._word("FIRST"):
            parts["positions"][name] = None
        elif self._word("AFTER"):
            parts["positions"][name] = self.parse_name()

    def _column_of(self: Any, name: str, parts: dict[str, Any]) -> None:
        if self._word("AS"):
            tree, text = self._expression_with_text()
            parts["columns"].append(
                statements.ColumnDefinition(
                    name, expression=tree, text=text, comment=self._comment()
                )
            )
            return
        kind = self.parse_data_type()
        key, is_metadata, is_virtual = None, False, False
        if self._word("METADATA"):
            is_metadata = True
            key = self._text_literal() if self._word("FROM") else None
            is_virtual = self._word("VIRTUAL")
        if self._word("CONSTRAINT"):
            parts["key_name"] = self.parse_name()
        if self._word("PRIMARY", "KEY"):
            self._key(parts, (name,))
        parts["columns"].append(
            statements.ColumnDefinition(
                name,
                kind,
                metadata_key=key,
                is_metadata=is_metadata,
                is_virtual=is_virtual,
                comment=self._comment(),
            )
        )

    def _read_create_view(self: Any, is_temporary: bool) -> statements.Statement:
        if_not_exists = self._word("IF", "NOT", "EXISTS")
        path = self.parse_path()
        names: tuple[str, ...] = ()
        if self._curr and self._curr.token_type == TokenType.L_PAREN:
            names = self._names()
        comment = self._comment()
        self._expect_word("AS")
        start = self._curr
        query = self.parse_query()
        text = self._find_sql(start, self._prev)
        return statements.CreateView(path, query, text, names, comment, is_temporary, if_not_exists)

    def _read_create_function(self: Any, is_temporary: bool, is_system: bool) -> Any:
        if_not_exists = self._word("IF", "NOT", "EXISTS")
        path = self.parse_path()
        self._expect_word("AS")
        name, language = self._text_literal(), self._language()
        if self._word("USING"):
            self.raise_error("USING JAR needs a JVM, which penstock does not have")
        return statements.CreateFunction(
            path, name, language, is_temporary, is_system, if_not_exists
        )

    def _language(self: Any) -> str:
        """Read LANGUAGE and its name; the default is Java."""
        if not self._word("LANGUAGE"):
            return "JAVA"
        language: str = self._any_word("a language")
        return language

    # DROP and ALTER -------------------------------------------------------------------------------

    def _read_drop(self: Any) -> statements.Statement:
        is_temporary = self._word("TEMPORARY")
        is_system = is_temporary and self._word("SYSTEM")
        for kind in _KINDS:
            if self._word(kind):
                break
        else:
            self._refuse_word(_KINDS, "DROP ")
        if_exists = self._word("IF", "EXISTS")
        path = self.parse_path()
        is_cascade = self._word("CASCADE")
        self._word("RESTRICT")
        return statements.Drop(kind, path, if_exists, is_temporary, is_system, is_cascade)

    def _read_alter(self: Any) -> statements.Statement:
        for kind in _KINDS:
            if self._word(kind):
                break
        else:
            self._refuse_word(_KINDS, "ALTER ")
        if_exists = self._word("IF", "EXISTS")
        path = self.parse_path()
        if kind == "FUNCTION":
            self._expect_word("AS")
            function = (self._text_literal(), self._language())
            return statements.Alter(kind, path, "AS", function, if_exists)
        action, arguments = self._alter_action()
        return statements.Alter(kind, path, action, arguments, if_exists)

    def _alter_action(self: Any) -> tuple[str, Any]:
        if self._word("RENAME", "TO"):
            return "RENAME", self.parse_path()
        if self._word("RENAME"):
            first = self.parse_name()
            self._expect_word("TO")
            return "RENAME COLUMN", (first, self.parse_name())
        if self._word("SET"):
            return "SET", self._options()
        if self._word("RESET"):
            self._expect(TokenType.L_PAREN)
            keys = [self._text_literal()]
            while self._match(TokenType.COMMA):
                keys.append(self._text_literal())
            self._expect(TokenType.R_PAREN)
            return "RESET", tuple(keys)
        for verb in ("ADD", "MODIFY"):
            if self._word(verb):
                is_lenient = self._word("IF", "NOT", "EXISTS")
                if verb == "ADD" and self._word("PARTITION"):
                    added = self.read_added_partition()
                    return "ADD PARTITION", replace(added, is_lenient=is_lenient)
                return verb, self._altered_elements()
        if self._word("DROP"):
            if self._word("PRIMARY", "KEY"):
                return "DROP PRIMARY KEY", None
            if self._word("CONSTRAINT"):
                return "DROP CONSTRAINT", self.parse_name()
            if self._word("WATERMARK"):
                return "DROP WATERMARK", None
            is_lenient = self._word("IF", "EXISTS")
            if self._word("PARTITION"):
                dropped = statements.PartitionChange(self.partition_values(), {}, is_lenient)
                return "DROP PARTITION", dropped
            if self._curr and self._curr.token_type == TokenType.L_PAREN:
                return "DROP", self._names()
            return "DROP", (self.parse_name(),)
        if self._word("AS"):
            start = self._curr
            query = self.parse_query()
            return "AS", (query, self._find_sql(start, self._prev))
        self.raise_error(f'Encountered "{self._curr.text if self._curr else "<EOF>"}"')
        raise AssertionError

    def _altered_elements(self: Any) -> statements.CreateTable:
        """Read columns to add or modify, with positions by FIRST and AFTER."""
        found: dict[str, Any] = {"columns": [], "watermarks": [], "positions": {}}
        if self._match(TokenType.L_PAREN):
            self._table_element(found)
            while self._match(TokenType.COMMA):
                self._table_element(found)
            self._expect(TokenType.R_PAREN)
        else:
            self._table_element(found)
        parts = {
            **found,
            "columns": tuple(found["columns"]),
            "watermarks": tuple(found["watermarks"]),
        }
        return statements.CreateTable((), **parts)

    # Others ---------------------------------------------------------------------------------------

    def _read_use(self: Any) -> statements.Statement:
        if self._word("CATALOG"):
            return statements.Use("CATALOG", (self.parse_name(),))
        if self._word("MODULES"):
            names = [self.parse_name()]
            while self._match(TokenType.COMMA):
                names.append(self.parse_name())
            return statements.Use("MODULES", tuple(names))
        return statements.Use("DATABASE", self.parse_path())

    def _read_show(self: Any) -> statements.Statement:
        for kind in _SHOWN_WITH_PATH:
            if self._word(*kind.split()):
                return statements.Show(kind, self.parse_path())
        for kind in _SHOWN:
            if self._word(*kind.split()):
                break
        else:
            self._refuse_word([*_SHOWN_WITH_PATH, *_SHOWN], "SHOW ")
        path: statements.Path = ()
        if kind == "PARTITIONS" or self._word("FROM") or self._word("IN"):
            path = self.parse_path()
        if kind == "PARTITIONS" and self._word("PARTITION"):
            return statements.Show(kind, path, partition=self.partition_values())
        is_negated = self._word("NOT")
        is_insensitive = self._word("ILIKE")
        pattern = self._text_literal() if is_insensitive or self._word("LIKE") else None
        return statements.Show(kind, path, pattern, is_negated, is_insensitive)

    def _read_describe(self: Any) -> statements.Statement:
        kind = "TABLE"
        for word in ("CATALOG", "DATABASE", "FUNCTION"):
            if self._word(word):
                kind = word
        is_extended = self._word("EXTENDED")
        return statements.Describe(self.parse_path(), is_extended, kind)

    def _read_explain(self: Any) -> statements.Statement:
        details: list[str] = []
        if not self._word("PLAN", "FOR"):
            known = ("ESTIMATED_COST", "CHANGELOG_MODE", "PLAN_ADVICE", "JSON_EXECUTION_PLAN")
            while self._curr and self._curr.text.upper() in known:
                details.append(self._curr.text.upper())
                self._advance()
                self._match(TokenType.COMMA)
        if self._word("STATEMENT", "SET"):
            return statements.Explain(self.statement_set(), tuple(details))
        return statements.Explain(self.parse_flink_statement(), tuple(details))

    def _read_insert(self: Any) -> statements.Statement:
        is_overwrite = self._word("OVERWRITE")
        if not is_overwrite:
            self._expect_word("INTO")
        self._word("TABLE")
        path = self.parse_path()
        options: dict[str, str] = {}
        if self._curr and self._curr.token_type == TokenType.HINT:
            options = self.hinted_options()
        partition: dict[str, Any] = {}
        if self._word("PARTITION"):
            self._expect(TokenType.L_PAREN)
            while True:
                name = self.parse_name()
                partition[name] = self._parse_primary() if self._match(TokenType.EQ) else None
                if not self._match(TokenType.COMMA):
                    break
            self._expect(TokenType.R_PAREN)
        names: tuple[str, ...] = ()
        following = self._next.token_type if self._next else None
        is_list = self._curr and self._curr.token_type == TokenType.L_PAREN
        if is_list and following not in (TokenType.SELECT, TokenType.WITH, TokenType.L_PAREN):
            names = self._names()
        return statements.Insert(path, self.parse_query(), names, is_overwrite, partition, options)

    def _read_set(self: Any) -> statements.Statement:
        if not self._curr:
            return statements.SetOption()
        key = self._text_literal()
        self._expect(TokenType.EQ)
        return statements.SetOption(key, self._text_literal())

    def _read_reset(self: Any) -> statements.Statement:
        return statements.ResetOption(self._text_literal() if self._curr else None)

    def _read_load(self: Any) -> statements.Statement:
        is_load = self._prev.text.upper() == "LOAD"
        self._expect_word("MODULE")
        name = self.parse_name()
        if not is_load:
            return statements.UnloadModule(name)
        return statements.LoadModule(name, self._options() if self._word("WITH") else {})


def is_query(tree: Any) -> bool:
    """Return whether a tree is a query."""
    return isinstance(tree, exp.Query | exp.Values)
