"""The names under which Flink lists its functions; SQL finds them in any case."""

from __future__ import annotations

from typing import Final

_UPPER_CASE: Final = frozenset(
    (
        "ARRAY_AGG", "ARRAY_APPEND", "ARRAY_CONCAT", "ARRAY_CONTAINS", "ARRAY_DISTINCT",
        "ARRAY_EXCEPT", "ARRAY_INTERSECT", "ARRAY_JOIN", "ARRAY_MAX", "ARRAY_MIN",
        "ARRAY_POSITION", "ARRAY_PREPEND", "ARRAY_REMOVE", "ARRAY_REVERSE", "ARRAY_SLICE",
        "ARRAY_SORT", "ARRAY_UNION", "BTRIM", "COALESCE", "CURRENT_WATERMARK", "ELT",
        "ENDSWITH", "GREATEST", "IFNULL", "INET_ATON", "INET_NTOA", "JSON", "JSON_ARRAY",
        "JSON_EXISTS", "JSON_OBJECT", "JSON_QUERY", "JSON_QUOTE", "JSON_STRING",
        "JSON_UNQUOTE", "JSON_VALUE", "LEAST", "LIKE", "MAP_ENTRIES", "MAP_FROM_ARRAYS",
        "MAP_KEYS", "MAP_UNION", "MAP_VALUES", "PERCENTILE", "PRINTF", "REGEXP_COUNT",
        "REGEXP_EXTRACT_ALL", "REGEXP_INSTR", "REGEXP_SUBSTR", "SPLIT", "STARTSWITH",
        "TO_TIMESTAMP_LTZ", "TRANSLATE3", "TYPEOF", "UNHEX", "URL_DECODE", "URL_ENCODE",
    )
)  # fmt: skip
"""The functions that Flink lists in upper case; it lists most others in lower case."""

_CAMEL_CASE: Final = {
    "CHAR_LENGTH": "charLength",
    "CONVERT_TZ": "convertTz",
    "CURRENT_DATABASE": "currentDatabase",
    "CURRENT_DATE": "currentDate",
    "CURRENT_ROW_TIMESTAMP": "currentRowTimestamp",
    "CURRENT_TIME": "currentTime",
    "CURRENT_TIMESTAMP": "currentTimestamp",
    "DATE_FORMAT": "dateFormat",
    "FROM_BASE64": "fromBase64",
    "FROM_UNIXTIME": "fromUnixtime",
    "INITCAP": "initCap",
    "LISTAGG": "listAgg",
    "LOCALTIME": "localTime",
    "LOCALTIMESTAMP": "localTimestamp",
    "PARSE_URL": "parseUrl",
    "RAND_INTEGER": "randInteger",
    "REGEXP_EXTRACT": "regexpExtract",
    "REGEXP_REPLACE": "regexpReplace",
    "SPLIT_INDEX": "splitIndex",
    "STDDEV_POP": "stddevPop",
    "STDDEV_SAMP": "stddevSamp",
    "STR_TO_MAP": "strToMap",
    "TIMESTAMPDIFF": "timestampDiff",
    "TO_BASE64": "toBase64",
    "TO_DATE": "toDate",
    "TO_TIMESTAMP": "toTimestamp",
    "UNIX_TIMESTAMP": "unixTimestamp",
    "VAR_POP": "varPop",
    "VAR_SAMP": "varSamp",
}
"""The functions that Flink lists under their names in its Java API."""

_UNLISTED: Final = frozenset(("CAST", "GET", "ITEM", "JSON_ARRAYAGG", "JSON_OBJECTAGG", "ROW"))
"""Functions that are written by syntax of their own."""


def built_in_names() -> set[str]:
    """Return the names of all built-in functions in upper case."""
    from penstock.table.functions.aggregates import AGGREGATES
    from penstock.table.functions.registry import table

    names = [*table(), *AGGREGATES]
    return {name for name in names if name[:1].isalpha() and " " not in name} - _UNLISTED


def listed_names() -> set[str]:
    """Return the names of all built-in functions in the cases in which Flink lists them."""
    return {
        name if name in _UPPER_CASE else _CAMEL_CASE.get(name, name.lower())
        for name in built_in_names()
    }
