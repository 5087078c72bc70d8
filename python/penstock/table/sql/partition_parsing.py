"""Parsing of clauses about partitions and buckets of tables."""

from __future__ import annotations

from typing import Any

from sqlglot.tokenizer_core import TokenType

from penstock.table.sql import statements


class PartitionParsing:
    """The part of the parser for statements about partitions."""

    def read_added_partition(self: Any) -> statements.PartitionChange:
        """Read the rest of ADD [IF NOT EXISTS] PARTITION."""
        values = self.partition_values()
        options = self._options() if self._word("WITH") else {}
        return statements.PartitionChange(values, options)

    def partition_values(self: Any) -> dict[str, str]:
        """Read (name = value, …); values are texts, numbers or dates."""
        self._expect(TokenType.L_PAREN)
        values: dict[str, str] = {}
        while True:
            name = self.parse_name()
            self._expect(TokenType.EQ)
            self._match_text_seq("DATE")
            if self._curr is None or self._curr.token_type not in (
                TokenType.STRING,
                TokenType.NUMBER,
            ):
                self.raise_error("the value of a partition was expected")
            values[name] = self._curr.text
            self._advance()
            if not self._match(TokenType.COMMA):
                break
        self._expect(TokenType.R_PAREN)
        return values

    def read_distribution(self: Any) -> str:
        """Read BY HASH(columns) INTO n BUCKETS, and return the clause as Flink shows it."""
        text = "DISTRIBUTED"
        if self._word("BY"):
            kind = next((word for word in ("HASH", "RANGE") if self._word(word)), "")
            columns = ", ".join(f"`{name}`" for name in self._names())
            text += f" BY {kind}({columns})"
            if not self._word("INTO"):
                return text
        else:
            self._expect_word("INTO")
        number = self._curr
        if number is None or not number.text.isdecimal():
            self.raise_error("a number of buckets was expected")
        self._expect(TokenType.NUMBER)
        self._expect_word("BUCKETS")
        return f"{text} INTO {int(number.text)} BUCKETS"
