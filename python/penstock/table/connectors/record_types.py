"""The type of the records between operators of tables: record batches of one schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.common.typeinfo import TypeInformation


def batch_type(schema: Any) -> TypeInformation | None:
    """Return the type of batches of an Arrow schema."""
    del schema
    return None
