from array import array
from typing import Any

def hash_column(column: Any, form: str, hashes: array[int], folds: bool) -> None: ...
def order_by_channel(
    hashes: array[int], owners: array[int], order: array[int], ends: array[int]
) -> None: ...
