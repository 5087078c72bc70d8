"""Names in statements, which are not reserved words unless they are quoted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot.tokenizer_core import TokenType

from penstock.table.sql.reserved_words import RESERVED

if TYPE_CHECKING:
    from penstock.table.sql import statements


class NameParsing:
    """The part of the parser for names; a base of the dialect's parser."""

    #: Words that a name must quote.
    reserved_words = RESERVED

    def parse_name(self: Any) -> str:
        """Read one name."""
        token = self._curr
        if (
            token
            and token.token_type != TokenType.IDENTIFIER
            and token.text.upper() in self.reserved_words
        ):
            self.raise_error(
                f'Encountered "{token.text}", the word is reserved, write `{token.text}` to use it '
                "as a name",
                token,
            )
        found = self._parse_id_var(any_token=True)
        if found is None:
            self.raise_error("a name was expected")
        return str(found.name)

    def parse_path(self: Any) -> statements.Path:
        """Read a name with up to two qualifiers."""
        parts = [self.parse_name()]
        while self._match(TokenType.DOT):
            parts.append(self.parse_name())
        return tuple(parts)

    def _names(self: Any) -> tuple[str, ...]:
        self._expect(TokenType.L_PAREN)
        names = [self.parse_name()]
        while self._match(TokenType.COMMA):
            names.append(self.parse_name())
        self._expect(TokenType.R_PAREN)
        return tuple(names)
