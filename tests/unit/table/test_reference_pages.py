"""The guide's pages about SQL match the code, and their statements parse."""

from pathlib import Path

import pytest

pytest.importorskip("sqlglot")

from penstock.table.exceptions import SqlParserException
from penstock.table.reference_pages import PAGES
from penstock.table.sql.parsing import parse_statement
from penstock.table.sql.statement_parsing import REFUSED_STATEMENTS
from penstock.table.sql.syntax import SYNTAX

DOCS = Path(__file__).parents[3] / "docs"


@pytest.mark.parametrize("path", PAGES)
def test_pages_are_those_of_the_code(path):
    """``python -m penstock.table.reference_pages docs`` writes these pages."""
    assert (DOCS / path).read_text(encoding="utf-8") == PAGES[path]()


@pytest.mark.parametrize("statement", [each for group in SYNTAX.values() for each in group])
def test_statements_parse(statement):
    assert parse_statement(statement) is not None


@pytest.mark.parametrize("words", REFUSED_STATEMENTS)
def test_refused_statements_name_the_reason(words):
    with pytest.raises(SqlParserException) as caught:
        parse_statement(f"{' '.join(words)} x")
    assert REFUSED_STATEMENTS[words] in str(caught.value)
