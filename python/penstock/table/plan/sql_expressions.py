"""Binding of the expressions in SQL's syntax trees."""

from __future__ import annotations

import decimal
from typing import TYPE_CHECKING, Any, Final

from sqlglot import exp

from penstock.table import types
from penstock.table.exceptions import TableException, ValidationException, marked
from penstock.table.functions.aggregates import find_aggregate
from penstock.table.functions.casts import parse_date, parse_time, parse_timestamp
from penstock.table.functions.logic import make_case, null
from penstock.table.plan import expressions as e
from penstock.table.plan.binder import Binder, interval, literal, refuse
from penstock.table.plan.null_literals import has_type
from penstock.table.plan.quantifiers import COMPARISONS, quantified
from penstock.table.plan.relations import with_nullability
from penstock.table.sql.parsing import place_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.table.plan.expressions import Expression
    from penstock.table.plan.scopes import Scope
    from penstock.table.sql.trees import CastTo, Function

_BINARY: Final[dict[type, str]] = {
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%", exp.EQ: "=",
    exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM", exp.NullSafeNEQ: "IS DISTINCT FROM",
    exp.Like: "LIKE", exp.SimilarTo: "SIMILAR TO", exp.Overlaps: "OVERLAPS", exp.DPipe: "||",
}  # fmt: skip
_GROUP_FUNCTIONS: Final = ("GROUPING", "GROUPING_ID", "GROUP_ID")


class SqlExpressions:
    """Binder of expressions in one scope.

    Attributes:
        binder: Resolves calls.
        scope: The resolution of names.
        replaced: Returns the expression of a tree with a special meaning in this clause, such as
            TUMBLE_START, or None.
        windows: The named windows of the query.
    """

    def __init__(
        self,
        binder: Binder,
        scope: Scope,
        *,
        bind_query: Callable[[Any, Scope], Any],
        replaced: Callable[[Any], Expression | None] = lambda _: None,
        windows: dict[str, Any] | None = None,
    ) -> None:
        """Create a binder for a scope."""
        self.binder = binder
        self.scope = scope
        self.replaced = replaced
        self.windows = windows or {}
        self._bind_query = bind_query
        self._windowed: Any = None

    def bind(self, tree: Any) -> Expression:
        """Return the resolved expression of a tree.

        Raises:
            ValidationException: A name is unknown or a type does not fit; the message has the
                position.
        """
        try:
            return self._bind(tree)
        except TableException as error:
            raise placed(error, tree, self.binder.context.text) from None

    def _bind(self, tree: Any) -> Expression:
        own = self.replaced(tree)
        if own is not None:
            return own
        method = getattr(self, f"_bind_{type(tree).__name__.lower()}", None)
        if method is not None:
            made: Expression = method(tree)
            return made
        operator = _BINARY.get(type(tree))
        if operator is not None:
            quantifier = _quantifier(tree.expression)
            if quantifier is not None:
                return self._quantified(operator, tree.this, *quantifier)
            negated = operator in ("LIKE", "SIMILAR TO") and tree.args.get("negate")
            arguments = [self.bind(tree.this), self.bind(tree.expression)]
            return self.binder.call(f"NOT {operator}" if negated else operator, arguments)
        refuse(f"{type(tree).__name__} in an expression")

    # Names and literals ---------------------------------------------------------------------------

    def _bind_column(self, tree: exp.Column) -> Expression:
        if isinstance(tree.this, exp.Star):
            raise ValidationException("'*' cannot be used here")
        path = tuple(part.name for part in tree.parts)
        try:
            return self.scope.resolve(path)
        except ValidationException:
            if len(path) > 1 or path[0].upper() != "PI" or tree.this.args.get("quoted"):
                raise
            return self.binder.call("PI", [])

    def _bind_dot(self, tree: exp.Dot) -> Expression:
        parts = _dotted(tree)
        if parts is not None:
            return self.scope.resolve(parts)
        if not isinstance(tree.expression, exp.Identifier):
            name = tree.expression.name if hasattr(tree.expression, "name") else ""
            return self._named_call(f"{tree.this.name}.{name}", tree.expression)
        return self.binder.field(self.bind(tree.this), tree.expression.name)

    def _bind_paren(self, tree: exp.Paren) -> Expression:
        return self.bind(tree.this)

    def _bind_alias(self, tree: exp.Alias) -> Expression:
        return self.bind(tree.this)

    def _bind_literal(self, tree: exp.Literal) -> Expression:
        text = str(tree.this)
        if tree.is_string:
            return literal(text)
        if "e" in text.lower():
            return literal(float(text))
        if "." in text.removesuffix("."):
            value = decimal.Decimal(text)
            digits = len(text) - 1
            scale = len(text) - 1 - text.index(".")
            return e.Literal(types.DecimalType(max(digits, 1), scale, nullable=False), value)
        return literal(int(text.removesuffix(".")))

    def _bind_hexstring(self, tree: exp.HexString) -> Expression:
        return literal(bytes.fromhex(str(tree.this)))

    def _bind_unicodestring(self, tree: exp.UnicodeString) -> Expression:
        text = str(tree.this)
        return literal(text.replace("\\\\", "\\") if "\\" not in text else _unicode(text))

    def _bind_boolean(self, tree: exp.Boolean) -> Expression:
        return literal(bool(tree.this))

    def _bind_null(self, tree: exp.Null) -> Expression:
        if not has_type(tree):
            raise ValidationException("Illegal use of 'NULL': it has no type; use CAST(NULL AS …)")
        return null()

    def _bind_interval(self, tree: exp.Interval) -> Expression:
        unit = tree.args.get("unit")
        value = tree.this
        sign = 1
        while isinstance(value, exp.Neg | exp.Paren):
            sign = -sign if isinstance(value, exp.Neg) else sign
            value = value.this
        if not isinstance(value, exp.Literal):
            raise ValidationException("INTERVAL takes a constant in quotes and a unit")
        if isinstance(unit, exp.IntervalSpan):
            first, last = unit.this.name.upper(), unit.expression.name.upper()
        else:
            first, last = unit.name.upper() if unit is not None else "", None
        if not first:
            raise ValidationException("INTERVAL needs a unit, such as SECOND")
        names = {n: n.removesuffix("S") for n in ("SECONDS", "MINUTES", "HOURS", "DAYS", "WEEKS",
                                                  "MONTHS", "QUARTERS", "YEARS")}  # fmt: skip
        first = names.get(first, first)
        return interval(str(value.this), first, last, sign=sign)

    def _bind_cast(self, tree: exp.Cast) -> Expression:
        """Bind a literal of a time: DATE '2024-01-31'."""
        kind, text = tree.to.this, str(tree.this.this)
        try:
            if kind == exp.DType.DATE:
                return literal(parse_date(text))
            if kind == exp.DType.TIME:
                return literal(parse_time(text))
            value = parse_timestamp(text)
        except ValueError as error:
            raise ValidationException(f"Illegal literal: {error}") from None
        _, _, fraction = text.partition(".")
        precision = min(len(fraction.strip()), 9)
        if kind == exp.DType.TIMESTAMPLTZ:
            zone = self.binder.context.session.zone
            kind_ltz = types.LocalZonedTimestampType(precision, nullable=False)
            return e.Literal(kind_ltz, value.replace(tzinfo=zone))
        return e.Literal(types.TimestampType(precision, nullable=False), value)

    def _bind_castto(self, tree: CastTo) -> Expression:
        return self.binder.cast(self.bind(tree.this), tree.args["to"], bool(tree.args.get("safe")))

    # Operators ------------------------------------------------------------------------------------

    def _bind_and(self, tree: exp.And) -> Expression:
        return self._logic("AND", tree)

    def _bind_or(self, tree: exp.Or) -> Expression:
        return self._logic("OR", tree)

    def _logic(self, name: str, tree: exp.Connector) -> Expression:
        arguments = [self.bind(part) for part in tree.flatten()]
        return self.binder.call(name, [self._truth(a) for a in arguments])

    @staticmethod
    def _truth(argument: Expression) -> Expression:
        if isinstance(argument.type, types.NullType):
            return e.Cast(types.BooleanType(), argument, is_implicit=True)
        return argument

    def _bind_not(self, tree: exp.Not) -> Expression:
        inner = tree.this
        while isinstance(inner, exp.Paren):
            inner = inner.this
        if isinstance(inner, exp.In) and inner.args.get("query") is None:
            return self._in(inner, "NOT IN")
        if isinstance(inner, exp.Is):
            return self._is(inner, is_negated=True)
        bound = self.bind(inner)
        if isinstance(bound, e.Subquery) and bound.kind in ("EXISTS", "IN"):
            return e.Subquery(
                bound.type, bound.kind, bound.plan, bound.arguments, not bound.is_negated
            )
        return self.binder.call("NOT", [self._truth(bound)])

    def _bind_neg(self, tree: exp.Neg) -> Expression:
        value = tree.this
        if isinstance(value, exp.Literal) and not value.is_string:
            bound = self.bind(value)
            assert isinstance(bound, e.Literal)
            if isinstance(bound.value, int):
                return literal(-bound.value)
            return e.Literal(bound.type, -bound.value)
        return self.binder.call("NEGATIVE", [self.bind(value)])

    def _bind_is(self, tree: exp.Is) -> Expression:
        return self._is(tree, is_negated=False)

    def _is(self, tree: exp.Is, *, is_negated: bool) -> Expression:
        value, what = self.bind(tree.this), tree.expression
        is_not = "NOT " if is_negated else ""
        if isinstance(what, exp.Null):
            return self.binder.call(f"IS {is_not}NULL", [value])
        if isinstance(what, exp.Boolean):
            word = "TRUE" if what.this else "FALSE"
            return self.binder.call(f"IS {is_not}{word}", [self._truth(value)])
        if isinstance(what, exp.JSON):
            kind = str(what.this or "VALUE").upper()
            made = self.binder.call("IS JSON", [value], options=(kind,))
            negate = is_negated != bool(what.args.get("negate"))
            return self.binder.call("NOT", [made]) if negate else made
        refuse(f"IS {what.sql()}")

    def _bind_between(self, tree: exp.Between) -> Expression:
        arguments = [
            self.bind(tree.this),
            self.bind(tree.args["low"]),
            self.bind(tree.args["high"]),
        ]
        options = ("SYMMETRIC",) if tree.args.get("symmetric") else ()
        return self.binder.call("BETWEEN", arguments, options=options)

    def _bind_escape(self, tree: exp.Escape) -> Expression:
        inner = tree.this
        name = _BINARY[type(inner)]
        if inner.args.get("negate"):
            name = f"NOT {name}"
        arguments = [inner.this, inner.expression, tree.expression]
        return self.binder.call(name, [self.bind(a) for a in arguments])

    def _bind_in(self, tree: exp.In) -> Expression:
        if tree.args.get("query") is not None:
            return self._in_query(tree)
        return self._in(tree, "IN")

    def _in(self, tree: exp.In, name: str) -> Expression:
        if not tree.expressions:
            raise ValidationException(f"{name} needs at least one value to compare with")
        choices = [self.bind(choice) for choice in tree.expressions]
        return self.binder.call(name, [self.bind(tree.this), *choices])

    def _in_query(self, tree: exp.In) -> Expression:
        query = tree.args["query"]
        plan = self._bind_query(
            query.this if isinstance(query, exp.Subquery) else query, self.scope
        )
        left = tree.this
        parts = left.expressions if isinstance(left, exp.Tuple) else [left]
        arguments = tuple(self.bind(part) for part in parts)
        if len(arguments) != len(plan.schema):
            raise ValidationException(
                f"IN compares {len(arguments)} values with the {len(plan.schema)} columns of its "
                "subquery"
            )
        return e.Subquery(types.BooleanType(), "IN", plan, arguments)

    def _quantified(self, operator: str, left: Any, choices: Any, is_all: bool) -> Expression:
        """Return a comparison with some or all rows of a subquery, or values of a list."""
        if isinstance(choices, list):
            value = self.bind(left)
            tests = [self.binder.call(operator, [value, self.bind(item)]) for item in choices]
            if len(tests) == 1:
                return tests[0]
            return self.binder.call("AND" if is_all else "OR", tests)
        if (operator, is_all) in (("=", False), ("<>", True)):
            found = exp.In(this=left, query=choices)
            return self.bind(exp.Not(this=found) if is_all else found)
        if operator not in COMPARISONS:
            raise ValidationException(
                f"ANY, SOME and ALL compare with =, <>, <, <=, > or >=, not with {operator}"
            )
        plan = self._bind_query(choices, self.scope)
        if len(plan.schema) != 1:
            raise ValidationException(
                f"ANY, SOME and ALL take a subquery of one column, this one has {len(plan.schema)}"
            )
        return quantified(operator, self.bind(left), plan, is_all=is_all)

    def _bind_exists(self, tree: exp.Exists) -> Expression:
        plan = self._bind_query(tree.this, self.scope)
        return e.Subquery(types.BooleanType(nullable=False), "EXISTS", plan)

    def _bind_subquery(self, tree: exp.Subquery) -> Expression:
        return self._scalar(tree.this)

    def _bind_select(self, tree: exp.Select) -> Expression:
        return self._scalar(tree)

    def _scalar(self, tree: Any) -> Expression:
        plan = self._bind_query(tree, self.scope)
        if len(plan.schema) != 1:
            raise ValidationException(
                f"A subquery that is a value has one column, this one has {len(plan.schema)}"
            )
        return e.Subquery(plan.schema.fields[0].type.nullable(), "SCALAR", plan)

    def _bind_case(self, tree: exp.Case) -> Expression:
        subject = None if tree.this is None else self.bind(tree.this)
        conditions, results = [], []
        for branch in tree.args["ifs"]:
            condition = self.bind(branch.this)
            if subject is not None:
                if isinstance(condition.type, types.NullType):
                    condition = e.Cast(subject.type.nullable(), condition, is_implicit=True)
                condition = self.binder.call("=", [subject, condition])
            conditions.append(self.binder.condition(condition, "WHEN"))
            results.append(self.bind(branch.args["true"]))
        default = tree.args.get("default")
        results.append(null() if default is None else self.bind(default))
        if all(isinstance(result.type, types.NullType) for result in results):
            raise ValidationException(
                "ELSE clause or at least one THEN clause must be non-NULL: use CAST(NULL AS …)"
            )
        return make_case(conditions, results)

    def _bind_bracket(self, tree: exp.Bracket) -> Expression:
        value = self.bind(tree.this)
        for index in tree.expressions:
            value = self.binder.call("ITEM", [value, self.bind(index)])
        return value

    def _bind_array(self, tree: exp.Array) -> Expression:
        return self.binder.call("ARRAY", [self.bind(part) for part in tree.expressions])

    def _bind_tuple(self, tree: exp.Tuple) -> Expression:
        return self.binder.call("ROW", [self.bind(part) for part in tree.expressions])

    # Calls ----------------------------------------------------------------------------------------

    def _bind_function(self, tree: Function) -> Expression:
        name = str(tree.this)
        options = tree.args.get("options") or ()
        arguments = [self.bind(a) for a in tree.expressions]
        return self.binder.call(name, arguments, options=options)

    def _bind_anonymous(self, tree: exp.Anonymous) -> Expression:
        name = tree.this if isinstance(tree.this, str) else tree.this.name
        return self._named_call(name, tree)

    def _named_call(self, name: str, tree: Any) -> Expression:
        if name.upper() in _GROUP_FUNCTIONS:
            raise ValidationException(f"{name.upper()} needs GROUP BY")
        parts = tree.expressions
        is_distinct, is_windowed = False, tree is self._windowed
        if len(parts) == 1 and isinstance(parts[0], exp.Distinct):
            is_distinct, parts = True, parts[0].expressions
        if len(parts) == 1 and isinstance(parts[0], exp.Star):
            if name.upper() != "COUNT":
                raise ValidationException(f"'*' is not an argument of {name}")
            parts = []
        elif name.upper() == "COUNT" and not parts:
            raise ValidationException("COUNT takes at least one argument, or *")
        arguments = [self.bind(part) for part in parts]
        made = self.binder.call(
            name,
            arguments,
            is_distinct=is_distinct,
            is_windowed=is_windowed,
            path=tuple(name.split(".")),
        )
        if isinstance(made, e.AggregateCall) and not is_windowed:
            found = find_aggregate(made.function) if isinstance(made.function, str) else None
            if found is not None and found.is_over_only:
                raise ValidationException(
                    f"OVER clause is necessary for window functions: {name.upper()} needs OVER (…)"
                )
        return made

    def _bind_filter(self, tree: exp.Filter) -> Expression:
        call = self.bind(tree.this)
        if not isinstance(call, e.AggregateCall):
            raise ValidationException("FILTER needs an aggregate in front of it")
        condition = self.binder.condition(self.bind(tree.expression.this), "FILTER")
        return e.AggregateCall(
            call.type if call.function == "COUNT" else call.type.nullable(),
            call.function, call.arguments, call.is_distinct, condition, call.name, call.options,
        )  # fmt: skip

    def _bind_withingroup(self, tree: exp.WithinGroup) -> Expression:
        raise ValidationException(
            f"Aggregate expression '{tree.this.name.upper()}' must not contain a WITHIN GROUP "
            "clause: as in Flink no aggregate takes one; PERCENTILE(value, share) gives percentiles"
        )

    def _bind_window(self, tree: exp.Window) -> Expression:
        self._windowed = tree.this
        call = self.bind(tree.this)
        if isinstance(call, e.OverCall) or not isinstance(call, e.AggregateCall):
            raise ValidationException("OVER needs an aggregate or ranking function in front of it")
        specification = tree
        alias = tree.args.get("alias")
        if alias is not None and not tree.args.get("partition_by") and not tree.args.get("order"):
            name = alias.name
            if name not in self.windows:
                raise ValidationException(f"Window '{name}' not found")
            specification = self.windows[name]
        partition = tuple(self.bind(p) for p in specification.args.get("partition_by") or ())
        order = specification.args.get("order")
        items = () if order is None else tuple(self.order_item(i) for i in order.expressions)
        frame = self._frame(specification.args.get("spec"), has_order=bool(items))
        call = with_nullability(call, has_rows=frame.has_current_row)
        return e.OverCall(call.type, call, partition, items, frame)

    def order_item(self, tree: exp.Ordered) -> e.OrderItem:
        """Return one part of ORDER BY."""
        descending = bool(tree.args.get("desc"))
        nulls_first = tree.args.get("nulls_first")
        if nulls_first is None:
            nulls_first = not descending
        return e.OrderItem(self.bind(tree.this), descending, bool(nulls_first))

    def _frame(self, spec: Any, *, has_order: bool) -> e.Frame:
        if spec is None:
            return e.Frame(False, None, 0 if has_order else None)
        is_rows = str(spec.args.get("kind")).upper() == "ROWS"
        start = self._bound(spec.args.get("start"), spec.args.get("start_side"), -1)
        end_value = spec.args.get("end")
        end = 0 if end_value is None else self._bound(end_value, spec.args.get("end_side"), 1)
        # Both are stored as distances: before the row in `preceding`, after it in `following`.
        return e.Frame(is_rows, None if start is None else -start if start else 0, end)

    def _bound(self, value: Any, side: Any, default: int) -> Any:
        """Return a signed distance from the current row; None without a bound."""
        if isinstance(value, str):
            return None if value.upper() == "UNBOUNDED" else 0
        bound = self.bind(value)
        if not isinstance(bound, e.Literal):
            raise ValidationException("The bounds of OVER must be constants")
        distance = bound.value
        sign = -1 if str(side).upper() == "PRECEDING" else 1
        del default
        return distance if sign > 0 else -distance


def _quantifier(tree: Any) -> tuple[Any, bool] | None:
    """Return the query or the list of values after ANY, SOME or ALL, and whether it is ALL."""
    if isinstance(tree, exp.Anonymous) and str(tree.this).upper() in ("ALL", "SOME"):
        return tree.expressions, str(tree.this).upper() == "ALL"
    if not isinstance(tree, exp.Any | exp.All):
        return None
    inner = tree.this
    if isinstance(inner, exp.Tuple):
        return inner.expressions, isinstance(tree, exp.All)
    while isinstance(inner, exp.Paren | exp.Subquery):
        inner = inner.this
    is_query = isinstance(inner, exp.Query | exp.Values)
    return inner if is_query else [inner], isinstance(tree, exp.All)


def _dotted(tree: Any) -> tuple[str, ...] | None:
    """Return the parts of a name with more than the four parts of a column."""
    if isinstance(tree, exp.Dot):
        left = _dotted(tree.this)
        if left is None or not isinstance(tree.expression, exp.Identifier):
            return None
        return (*left, tree.expression.name)
    if isinstance(tree, exp.Column):
        return tuple(part.name for part in tree.parts)
    if isinstance(tree, exp.Identifier):
        return (tree.name,)
    return None


def _unicode(text: str) -> str:
    import re

    def character(found: re.Match[str]) -> str:
        return chr(int(found[1] or found[2], 16))

    return re.sub(r"\\(?:\+([0-9A-Fa-f]{6})|([0-9A-Fa-f]{4}))", character, text)


def placed(error: TableException, tree: Any, text: str) -> TableException:
    """Add the position of a tree to an error, unless it has one."""
    if getattr(error, "is_placed", False) or not text:
        return error
    place = place_of(tree)
    if place is None:
        return error
    line, column = place
    made = type(error)(
        f"SQL validation failed. From line {line}, column {column}: {error}\n"
        f"{marked(text, line, column)}"
    )
    made.is_placed = True  # type: ignore[attr-defined]
    return made
