"""The numbers of row kinds, and the column that holds them."""

from typing import Final

#: The name of the column of row kinds of a batch of changes.
ROW_KIND: Final = "$row_kind"
INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = range(4)
#: The kinds of rows that become part of a result; the others are removed from it.
ADDED: Final = frozenset((INSERT, UPDATE_AFTER))
