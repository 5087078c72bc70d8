"""Functions of Flink that penstock lacks, with what to use instead."""

from __future__ import annotations

from typing import Final

_BITMAPS: Final = "there is no type BITMAP: use COUNT(DISTINCT …), or arrays and ARRAY_UNION"
_MODELS: Final = "there are no models: a Python function can call one"
_OBJECTS: Final = "there are no types of Java classes: use ROW"
_VARIANTS: Final = "there is no type VARIANT: read JSON by JSON_VALUE and JSON_QUERY"

MISSING: Final = {
    **{
        f"BITMAP_{name}": _BITMAPS
        for name in (
            "AND", "ANDNOT", "AND_AGG", "AND_CARDINALITY_AGG", "BUILD", "BUILD_AGG",
            "BUILD_CARDINALITY_AGG", "CARDINALITY", "FROM_BYTES", "OR", "OR_AGG",
            "OR_CARDINALITY_AGG", "TO_ARRAY", "TO_BYTES", "TO_STRING", "XOR", "XOR_AGG",
            "XOR_CARDINALITY_AGG",
        )
    },
    "ML_EVALUATE": _MODELS,
    "ML_PREDICT": _MODELS,
    "OBJECT_OF": _OBJECTS,
    "OBJECT_UPDATE": _OBJECTS,
    "PARSE_JSON": _VARIANTS,
    "TRY_PARSE_JSON": _VARIANTS,
    "VECTOR_SEARCH": _MODELS,
}  # fmt: skip
"""By name, the reason and the replacement."""
