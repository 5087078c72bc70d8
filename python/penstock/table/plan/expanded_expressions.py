"""Expressions with qualified names, in the form that Flink uses for views."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final

from sqlglot import exp

from penstock.table import types
from penstock.table.quoting import dotted, escaped, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.table.plan.scopes import Relation, Scope

#: Operators between two values: the text, and Calcite's precedence.
_BINARY: Final[dict[type, tuple[str, int]]] = {
    exp.Or: ("OR", 22), exp.And: ("AND", 24), exp.EQ: ("=", 30), exp.NEQ: ("<>", 30),
    exp.LT: ("<", 30), exp.LTE: ("<=", 30), exp.GT: (">", 30), exp.GTE: (">=", 30),
    exp.NullSafeEQ: ("IS NOT DISTINCT FROM", 30), exp.NullSafeNEQ: ("IS DISTINCT FROM", 30),
    exp.Overlaps: ("OVERLAPS", 30), exp.Like: ("LIKE", 32), exp.SimilarTo: ("SIMILAR TO", 32),
    exp.Add: ("+", 40), exp.Sub: ("-", 40), exp.Mul: ("*", 60), exp.Div: ("/", 60),
    exp.Mod: ("%", 60), exp.DPipe: ("||", 60),
}  # fmt: skip
_NOT, _IS, _IN, _SIGN = 26, 28, 32, 80
_WITHOUT_PARENTHESES: Final = (
    "CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "LOCALTIME", "LOCALTIMESTAMP",
)  # fmt: skip
#: Functions without an operator in Flink's parser: Flink quotes their names.
QUOTED_FUNCTIONS: Final = frozenset((
    "ARRAY_APPEND", "ARRAY_CONCAT", "ARRAY_CONTAINS", "ARRAY_DISTINCT", "ARRAY_EXCEPT",
    "ARRAY_INTERSECT", "ARRAY_JOIN", "ARRAY_MAX", "ARRAY_MIN", "ARRAY_POSITION", "ARRAY_PREPEND",
    "ARRAY_REMOVE", "ARRAY_REVERSE", "ARRAY_SLICE", "ARRAY_SORT", "ARRAY_UNION", "BTRIM",
    "CURRENT_WATERMARK", "ELT", "ENDSWITH", "GREATEST", "IFNULL", "INET_ATON", "INET_NTOA", "JSON",
    "JSON_QUOTE", "JSON_STRING", "JSON_UNQUOTE", "LEAST", "MAP_ENTRIES", "MAP_FROM_ARRAYS",
    "MAP_KEYS", "MAP_UNION", "MAP_VALUES", "PERCENTILE", "PRINTF", "REGEXP_COUNT",
    "REGEXP_EXTRACT_ALL", "REGEXP_INSTR", "REGEXP_SUBSTR", "SPLIT", "STARTSWITH",
    "TO_TIMESTAMP_LTZ", "TRANSLATE", "TYPEOF", "UNHEX", "URL_DECODE", "URL_ENCODE",
))  # fmt: skip


class UnwrittenError(Exception):
    """A part of a query has no expanded text."""


def text_literal(value: str) -> str:
    """Return a literal, with the UTF-16 codes of non-ASCII characters."""
    text = escaped(value)
    if text.isascii():
        return f"'{text}'"
    units = text.encode("utf-16-be")
    codes = [int.from_bytes(units[i : i + 2], "big") for i in range(0, len(units), 2)]
    return "u&'" + "".join(chr(c) if c < 128 else f"\\{c:04x}" for c in codes) + "'"


def unenclosed(tree: Any) -> Any:
    """Return an expression without the parentheses around it."""
    while isinstance(tree, exp.Paren):
        tree = tree.this
    return tree


def type_text(kind: types.DataType) -> str:
    """Return the type of a CAST.

    Raises:
        UnwrittenError: The type has no expanded text.
    """
    if isinstance(kind, types.IntType):
        return "INTEGER"
    if isinstance(kind, types.ArrayType):
        return f"ARRAY< {type_text(kind.element_type)} >"
    if isinstance(kind, types.MapType | types.RowType | types.MultisetType):
        raise UnwrittenError
    return kind.summary().replace(", 0)", ")")


class ExpressionWriter(ABC):
    """Writes the expressions of one statement.

    Calcite's rule puts operators in parentheses if they bind less strongly than the preceding or
    the following one.

    Attributes:
        scopes: The scope of each query, by the identity of its tree.
        scope: The scope of the current query.
        aliases: The names of the relations in FROM, by the identity of their scope and their first
            column.
    """

    def __init__(
        self,
        scopes: dict[int, Scope],
        function_path: Callable[[Sequence[str]], Sequence[str] | None],
    ) -> None:
        """Create a writer for a statement."""
        self.scopes = scopes
        self.scope: Scope | None = None
        self.aliases: dict[tuple[int, int], str] = {}
        self._function_path = function_path

    @abstractmethod
    def query(self, tree: Any) -> str:
        """Return the text of a query."""

    def alias_of(self, scope: Scope, relation: Relation) -> str:
        """Return the name of a relation in FROM.

        Raises:
            UnwrittenError: An outer query refers to it, and it has no name.
        """
        if relation.names:
            return relation.names[-1]
        found = self.aliases.get((id(scope), relation.start))
        if found is None:
            raise UnwrittenError
        return found

    def scope_of(self, tree: Any) -> Scope:
        """Return the columns that can be named in a query.

        Raises:
            UnwrittenError: The query was not bound as it stands.
        """
        found = self.scopes.get(id(tree))
        if found is None:
            raise UnwrittenError
        return found

    @staticmethod
    def order_item(item: exp.Ordered, text: str) -> str:
        """Return a part of ORDER BY, whose expression has the given text."""
        is_descending = bool(item.args.get("desc"))
        nulls_first = item.args.get("nulls_first")
        if is_descending:
            text += " DESC"
        if nulls_first is not None and bool(nulls_first) == is_descending:
            text += " NULLS FIRST" if nulls_first else " NULLS LAST"
        return text

    # Expressions --------------------------------------------------------------------------------

    def expression(self, tree: Any, left: int = 0, right: int = 0) -> str:
        """Return an expression between operators with these precedences."""
        tree = unenclosed(tree)
        if type(tree) in _BINARY:
            return self._binary(tree, left, right)
        method = getattr(self, f"_write_{type(tree).__name__.lower()}", None)
        if method is None:
            raise UnwrittenError
        made: str | tuple[int, Callable[[int, int], str]] = method(tree)
        if isinstance(made, str):
            return made
        precedence, write = made
        return self._enclosed(precedence, left, right, write)

    @staticmethod
    def _enclosed(precedence: int, left: int, right: int, write: Callable[[int, int], str]) -> str:
        own_left, own_right = precedence * 2, precedence * 2 + 1
        if left > own_left or (right and own_right <= right):
            return f"({write(0, 0)})"
        return write(left, right)

    def _binary(self, tree: Any, left: int, right: int) -> str:
        precedence = _BINARY[type(tree)][1]
        # The operators of a chain, the last one first: a query may have hundreds of them.
        chain = [tree]
        first = unenclosed(tree.this)
        while _BINARY.get(type(first), ("", 0))[1] == precedence:
            chain.append(first)
            first = unenclosed(first.this)

        def write(before: int, behind: int) -> str:
            parts = [self.expression(first, before, precedence * 2)]
            for part in reversed(chain):
                word = _BINARY[type(part)][0]
                end = behind if part is tree else precedence * 2
                parts.append(f"NOT {word}" if part.args.get("negate") else word)
                parts.append(self.expression(part.expression, precedence * 2 + 1, end))
            return " ".join(parts)

        return self._enclosed(precedence, left, right, write)

    def _write_column(self, tree: exp.Column) -> str:
        return self._name(tuple(part.name for part in tree.parts))

    def _name(self, parts: tuple[str, ...]) -> str:
        assert self.scope is not None
        found = self.scope.place_of(parts)
        if found is None:
            raise UnwrittenError
        scope, column, fields = found
        return dotted((self.alias_of(scope, scope.relation_of(column)), column.name, *fields))

    def _write_dot(self, tree: exp.Dot) -> str:
        parts: list[str] = []
        inner: Any = tree
        while isinstance(inner, exp.Dot) and isinstance(inner.expression, exp.Identifier):
            parts.insert(0, inner.expression.name)
            inner = inner.this
        if isinstance(inner, exp.Column):
            return self._name((*(part.name for part in inner.parts), *parts))
        if isinstance(inner, exp.Dot):
            raise UnwrittenError
        return f"{self.expression(inner, 0, 200)}.{dotted(parts)}"

    def _write_literal(self, tree: exp.Literal) -> str:
        return text_literal(str(tree.this)) if tree.is_string else str(tree.this).upper()

    def _write_hexstring(self, tree: exp.HexString) -> str:
        return f"X'{str(tree.this).upper()}'"

    def _write_boolean(self, tree: exp.Boolean) -> str:
        return "TRUE" if tree.this else "FALSE"

    def _write_null(self, tree: exp.Null) -> str:
        del tree
        return "NULL"

    def _write_interval(self, tree: exp.Interval) -> str:
        value, sign = tree.this, ""
        if isinstance(value, exp.Neg):
            value, sign = value.this, "-"
        unit = tree.args.get("unit")
        if not isinstance(value, exp.Literal) or unit is None:
            raise UnwrittenError
        ends = (unit.this, unit.expression) if isinstance(unit, exp.IntervalSpan) else (unit,)
        words = " TO ".join(end.name.upper().removesuffix("S") for end in ends)
        return f"INTERVAL {sign}{text_literal(str(value.this))} {words}"

    def _write_cast(self, tree: exp.Cast) -> str:
        names = {exp.DType.DATE: "DATE", exp.DType.TIME: "TIME", exp.DType.TIMESTAMP: "TIMESTAMP"}
        name = names.get(tree.to.this)
        if name is None:
            raise UnwrittenError
        return f"{name} {text_literal(str(tree.this.this))}"

    def _write_castto(self, tree: Any) -> str:
        word = "TRY_CAST" if tree.args.get("safe") else "CAST"
        return f"{word}({self.expression(tree.this)} AS {type_text(tree.args['to'])})"

    def _write_neg(self, tree: exp.Neg) -> Any:
        if isinstance(tree.this, exp.Literal):
            return f"-{self.expression(tree.this)}"
        bound = _SIGN * 2 + 1
        return _SIGN, lambda _, behind: f"- {self.expression(tree.this, bound, behind)}"

    def _write_not(self, tree: exp.Not) -> Any:
        inner = tree.this
        if isinstance(inner, exp.Is):
            return self._is(inner, "IS NOT")
        if isinstance(inner, exp.In):
            return self._in(inner, "NOT IN")
        if isinstance(inner, exp.Between):
            return self._between(inner, "NOT BETWEEN")
        return _NOT, lambda _, behind: f"NOT {self.expression(inner, _NOT * 2 + 1, behind)}"

    def _write_is(self, tree: exp.Is) -> Any:
        return self._is(tree, "IS")

    def _is(self, tree: exp.Is, word: str) -> Any:
        what = tree.expression
        if isinstance(what, exp.JSON) and not what.args.get("negate"):
            json_kind = str(what.this or "VALUE").upper()
            return (
                _IS,
                lambda before, _: (
                    f"{self.expression(tree.this, before, _IS * 2)} {word} JSON {json_kind}"
                ),
            )
        if not isinstance(what, exp.Null | exp.Boolean):
            raise UnwrittenError
        kind = self.expression(what)
        return (
            _IS,
            lambda before, _: f"{self.expression(tree.this, before, _IS * 2)} {word} {kind}",
        )

    def _write_in(self, tree: exp.In) -> Any:
        return self._in(tree, "IN")

    def _in(self, tree: exp.In, word: str) -> Any:
        query = tree.args.get("query")
        if query is not None:
            choices = self.query(query.this if isinstance(query, exp.Subquery) else query)
        else:
            choices = ", ".join(map(self.expression, tree.expressions))
        return (
            _IN,
            lambda before, _: f"{self.expression(tree.this, before, _IN * 2)} {word} ({choices})",
        )

    def _write_between(self, tree: exp.Between) -> Any:
        return self._between(tree, "BETWEEN")

    def _between(self, tree: exp.Between, word: str) -> Any:
        kind = "SYMMETRIC" if tree.args.get("symmetric") else "ASYMMETRIC"
        low, high = (self.expression(tree.args[end], _IN * 2, _IN * 2) for end in ("low", "high"))
        return (
            _IN,
            lambda before, _: (
                f"{self.expression(tree.this, before, _IN * 2)} {word} {kind} {low} AND {high}"
            ),
        )

    def _write_escape(self, tree: exp.Escape) -> Any:
        escape = self.expression(tree.expression)
        return (
            _IN,
            lambda before, behind: f"{self.expression(tree.this, before, behind)} ESCAPE {escape}",
        )

    def _write_exists(self, tree: exp.Exists) -> str:
        return f"EXISTS ({self.query(tree.this)})"

    def _write_subquery(self, tree: exp.Subquery) -> str:
        return f"((({self.query(tree.this)})))"

    def _write_select(self, tree: exp.Select) -> str:
        return f"((({self.query(tree)})))"

    def _write_any(self, tree: exp.Any) -> str:
        return f"SOME ({self._choices(tree.this)})"

    def _write_all(self, tree: exp.All) -> str:
        return f"ALL ({self._choices(tree.this)})"

    def _choices(self, tree: Any) -> str:
        if isinstance(tree, exp.Tuple):
            return ", ".join(map(self.expression, tree.expressions))
        while isinstance(tree, exp.Paren | exp.Subquery):
            tree = tree.this
        return self.query(tree) if id(tree) in self.scopes else self.expression(tree)

    def _write_case(self, tree: exp.Case) -> str:
        subject = tree.this
        parts = ["CASE"]
        for branch in tree.args["ifs"]:
            condition = self.expression(branch.this, 61 if subject is not None else 0)
            if subject is not None:
                condition = f"{self.expression(subject, 0, 60)} = {condition}"
            parts.append(f"WHEN {condition} THEN {self.expression(branch.args['true'])}")
        default = tree.args.get("default")
        last = "NULL" if default is None else self.expression(default)
        return " ".join([*parts, f"ELSE {last} END"])

    def _write_bracket(self, tree: exp.Bracket) -> str:
        made = self.expression(tree.this, 0, 200)
        return made + "".join(f"[{self.expression(index)}]" for index in tree.expressions)

    def _write_tuple(self, tree: exp.Tuple) -> str:
        return f"ROW({', '.join(map(self.expression, tree.expressions))})"

    # Calls --------------------------------------------------------------------------------------

    def _write_anonymous(self, tree: exp.Anonymous) -> str:
        name = tree.this if isinstance(tree.this, str) else tree.this.name
        arguments = tree.expressions
        text = ", ".join(
            f"DISTINCT {', '.join(map(self.expression, part.expressions))}"
            if isinstance(part, exp.Distinct)
            else "*"
            if isinstance(part, exp.Star)
            else self.expression(part)
            for part in arguments
        )
        return f"{self.function_name(name)}({text})"

    def function_name(self, name: str) -> str:
        """Return the qualified name of a function."""
        own = self._function_path(tuple(name.split(".")))
        if own is not None:
            return dotted(own)
        return quoted(name.upper()) if name.upper() in QUOTED_FUNCTIONS else name.upper()

    def _write_function(self, tree: Any) -> str:
        name = str(tree.this)
        options: tuple[Any, ...] = tree.args.get("options") or ()
        parts = [self.expression(part) for part in tree.expressions]
        if name in _WITHOUT_PARENTHESES and not parts:
            return name
        if name in ("ARRAY", "MAP"):
            return f"{name}[{', '.join(parts)}]"
        if name == "TRIM" and len(parts) <= 2:
            removed = parts[1] if len(parts) == 2 else text_literal(" ")
            return f"TRIM({options[0]} {removed} FROM {parts[0]})"
        if name == "EXTRACT":
            return f"EXTRACT({options[0]} FROM {parts[0]})"
        if name in ("CEIL", "FLOOR") and options:
            return f"{name}({parts[0]} TO {options[0]})"
        if name in ("TIMESTAMPADD", "TIMESTAMPDIFF"):
            return f"{name}({', '.join([options[0], *parts])})"
        if name == "POSITION":
            return f"POSITION({' IN '.join(parts[:2])}{''.join(f' FROM {p}' for p in parts[2:])})"
        if name == "OVERLAY":
            words = ("", " PLACING ", " FROM ", " FOR ")
            return f"OVERLAY({''.join(w + p for w, p in zip(words, parts, strict=False))})"
        if name == "JSON_OBJECT":
            pairs = zip(parts[::2], parts[1::2], strict=True)
            members = ", ".join(f"KEY {key} VALUE {value}" for key, value in pairs)
            return f"JSON_OBJECT({members} {options[0]} ON NULL)"
        if name == "JSON_ARRAY":
            return f"JSON_ARRAY({', '.join(parts)} {options[0]} ON NULL)"
        if name in ("JSON_VALUE", "JSON_EXISTS"):
            return self._json_path(name, parts, dict(options))
        if options:
            raise UnwrittenError
        return f"{self.function_name(name)}({', '.join(parts)})"

    @staticmethod
    def _json_path(name: str, parts: list[str], options: dict[str, Any]) -> str:
        made = ", ".join(parts[:2])
        if "RETURNING" in options:
            made += f" RETURNING {type_text(options['RETURNING'])}"
        for event in ("EMPTY", "ERROR"):
            if event in options:
                word, *rest = options[event]
                made += f" {word}{''.join(f' {parts[p]}' for p in rest)} ON {event}"
        return f"{name}({made})"

    def _write_filter(self, tree: exp.Filter) -> str:
        condition = self.expression(tree.expression.this)
        return f"{self.expression(tree.this)} FILTER (WHERE {condition})"

    def _write_window(self, tree: exp.Window) -> Any:
        call = self.expression(tree.this)
        alias = tree.args.get("alias")
        if alias is not None and not tree.args.get("partition_by") and not tree.args.get("order"):
            return f"{call} OVER {quoted(alias.name)}"
        made = f"{call} OVER ({self.window_text(tree)})"
        return 20, lambda *_: made

    def named_window(self, tree: exp.Window) -> str:
        """Return an entry of WINDOW."""
        return f"{quoted(tree.this.name)} AS ({self.window_text(tree)})"

    def window_text(self, tree: exp.Window) -> str:
        """Return the content of OVER (…)."""
        parts = []
        if tree.args.get("partition_by"):
            columns = map(self.expression, tree.args["partition_by"])
            parts.append(f"PARTITION BY {', '.join(columns)}")
        if tree.args.get("order") is not None:
            ordered = tree.args["order"].expressions
            items = (self.order_item(item, self.expression(item.this)) for item in ordered)
            parts.append(f"ORDER BY {', '.join(items)}")
        spec = tree.args.get("spec")
        if spec is not None:
            ends = [
                self._bound(spec.args[end], spec.args.get(f"{end}_side"))
                for end in ("start", "end")
                if spec.args.get(end) is not None
            ]
            bounds = f"BETWEEN {' AND '.join(ends)}" if len(ends) == 2 else ends[0]
            parts.append(f"{str(spec.args.get('kind')).upper()} {bounds}")
        return " ".join(parts)

    def _bound(self, value: Any, side: Any) -> str:
        text = value.upper() if isinstance(value, str) else self.expression(value)
        return text if side is None or text == "CURRENT ROW" else f"{text} {str(side).upper()}"
