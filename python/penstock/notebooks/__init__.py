"""Jobs and SQL in notebooks; ``%load_ext penstock.notebooks`` adds ``%%penstock_sql``."""

from __future__ import annotations

from typing import Any


def load_ipython_extension(ipython: Any) -> None:
    """Register ``%%penstock_sql``; IPython calls it."""
    from penstock.notebooks import sql_magic

    sql_magic.load_ipython_extension(ipython)
