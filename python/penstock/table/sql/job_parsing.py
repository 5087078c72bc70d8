"""Parsing of statements that start jobs: statement sets and plans."""

from __future__ import annotations

from typing import Any

from sqlglot.tokenizer_core import TokenType

from penstock.table.sql import statements


class JobParsing:
    """The part of the parser for statement sets and plans; a base of the statements' part."""

    def read_execute(self: Any) -> statements.Statement:
        """Read the rest of EXECUTE."""
        if self._word("STATEMENT", "SET"):
            return self.statement_set()
        if self._word("PLAN"):
            return statements.ExecutePlan(self._text_literal())
        return statements.Execute(self.parse_flink_statement())

    def read_compile(self: Any) -> statements.Statement:
        """Read the rest of COMPILE PLAN."""
        is_executed = self._word("AND", "EXECUTE")
        self._expect_word("PLAN")
        file = self._text_literal()
        if_not_exists = not is_executed and self._word("IF", "NOT", "EXISTS")
        self._expect_word("FOR")
        start = self._curr
        if self._word("STATEMENT", "SET"):
            self.statement_set()
            text = f"EXECUTE {self._find_sql(start, self._prev)}"
        else:
            self._expect_word("INSERT")
            self._read_insert()
            text = self._find_sql(start, self._prev)
        return statements.CompilePlan(file, text, if_not_exists, is_executed)

    def read_begin(self: Any) -> statements.Statement:
        """Read the rest of BEGIN STATEMENT SET."""
        self._expect_word("STATEMENT", "SET")
        self._match(TokenType.SEMICOLON)
        return self._inserts()

    def statement_set(self: Any) -> statements.StatementSetBlock:
        """Read BEGIN … END, behind STATEMENT SET."""
        self._expect_word("BEGIN")
        return self._inserts()

    def _inserts(self: Any) -> statements.StatementSetBlock:
        found: list[statements.Insert] = []
        while not found or not self._word("END"):
            self._expect_word("INSERT")
            found.append(self._read_insert())
            self._match(TokenType.SEMICOLON)
        return statements.StatementSetBlock(tuple(found))
