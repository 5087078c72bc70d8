from collections.abc import Iterable, Sequence
from typing import Any

from penstock.common.plain_row import RowBase as RowBase

def set_row_class(cls: type) -> None: ...
def rows_of_columns(names: Sequence[str], columns: Sequence[Iterable[Any]]) -> list[Any]: ...
