"""The numbers of row kinds, and the column that holds them."""

from typing import Final

#: The name of the column of row kinds of a batch of changes.
ROW_KIND: Final = "$row_kind"
INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = range(4)
