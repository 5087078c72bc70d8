"""MATCH_RECOGNIZE: patterns in the rows of a partition, their definitions and measures."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from sqlglot import exp

from penstock.graph.operators import PatternCondition
from penstock.table import types
from penstock.table.exceptions import TableException, ValidationException
from penstock.table.functions.aggregates import find_aggregate
from penstock.table.plan import expressions as e
from penstock.table.plan import nodes as n
from penstock.table.plan.binder import refuse
from penstock.table.plan.schema import Field, Schema, is_time_attribute, without_time
from penstock.table.plan.scopes import Relation, Scope
from penstock.table.plan.windows import milliseconds
from penstock.table.types import TimeAttribute

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.cep import Pattern
    from penstock.graph.operators import CompiledPattern
    from penstock.table.plan.expressions import Expression
    from penstock.table.plan.nodes import Node
    from penstock.table.plan.queries import QueryBinder

_ELEMENT: Final = re.compile(r"\s*(?:`([^`]+)`|([A-Za-z_]\w*))\s*(\*|\+|\?|\{[^}]*\})?(\??)")
_BOUNDS: Final = re.compile(r"\{\s*(\d*)\s*(,?)\s*(\d*)\s*\}")
_TIMES: Final = ("MATCH_ROWTIME", "MATCH_PROCTIME")


@dataclass(frozen=True)
class PatternElement:
    """Consecutive rows of a variable.

    Attributes:
        variable: The name of the variable.
        least: The smallest number of rows.
        most: The largest number of rows; None for no limit.
        is_greedy: Whether as many rows as possible are matched, or as few.
    """

    variable: str
    least: int = 1
    most: int | None = 1
    is_greedy: bool = True

    def __str__(self) -> str:
        bounds = {(1, 1): "", (0, None): "*", (1, None): "+", (0, 1): "?"}
        most = "" if self.most is None else self.most
        text = bounds.get((self.least, self.most), f"{{{self.least},{most}}}")
        return f"{self.variable}{text}{'' if self.is_greedy or text in ('', '?') else '?'}"


@dataclass(frozen=True)
class Reference:
    """A value that an expression reads from the rows matched so far.

    Attributes:
        kind: ``FIRST``, ``LAST``, ``AGGREGATE``, or ``TIME`` of the last row.
        variable: The variable of the rows; None for all rows.
        value: The value of a row, or the aggregate, over the columns of the input.
        offset: The number of rows after the first one, or before the last one.
    """

    kind: str
    variable: str | None
    value: Expression
    offset: int = 0

    def __str__(self) -> str:
        variable = "" if self.variable is None else f"{self.variable}."
        if self.kind in ("AGGREGATE", "TIME"):
            return f"{self.kind}({variable}{self.value})"
        return f"{self.kind}({variable}{self.value}, {self.offset})"


@dataclass(frozen=True)
class MatchSpecification:
    """A pattern and its semantics; expressions read the values of ``references`` as columns.

    Attributes:
        partition: The positions of the partitioning columns.
        order: The order of rows; the first is a time attribute.
        pattern: The elements, in order.
        definitions: The conditions of variables; variables without one match every row.
        measures: The results of a match.
        references: The values that definitions and measures read.
        skip: The start of the next match: ``PAST LAST``, ``NEXT``, ``FIRST`` or ``LAST``.
        skip_variable: The variable of FIRST and LAST.
        within_ms: The time limit of a match; None for no limit.
    """

    partition: tuple[int, ...]
    order: tuple[e.OrderItem, ...]
    pattern: tuple[PatternElement, ...]
    definitions: tuple[tuple[str, Expression], ...]
    measures: tuple[Expression, ...]
    references: tuple[Reference, ...]
    skip: str
    skip_variable: str = ""
    within_ms: int | None = None

    def __str__(self) -> str:
        within = "" if self.within_ms is None else f" WITHIN {self.within_ms} ms"
        order = ", ".join(map(str, self.order))
        references = ", ".join(map(str, self.references))
        definitions = ", ".join(f"{name} AS {condition}" for name, condition in self.definitions)
        return (
            f"orderBy=[{order}], measures=[{', '.join(map(str, self.measures))}], "
            f"after=[SKIP {self.skip} {self.skip_variable}], "
            f"pattern=[{' '.join(map(str, self.pattern))}{within}], define=[{definitions}], "
            f"references=[{references}]"
        )


def bind_match(
    queries: QueryBinder, node: Node, scope: Scope, tree: exp.MatchRecognize
) -> tuple[Node, Scope]:
    """Return the matches of a pattern in the rows of a node, and their scope.

    Raises:
        ValidationException: A name is unknown, or the rows are not ordered by time.
        TableException: Flink does not support the pattern.
    """
    return _MatchBinder(queries, node, scope, tree).bind()


class _MatchBinder:
    def __init__(
        self, queries: QueryBinder, node: Node, scope: Scope, tree: exp.MatchRecognize
    ) -> None:
        self._queries = queries
        self._node = node
        self._scope = scope
        self._tree = tree
        self._pattern = parse_pattern(str(tree.args["pattern"].this))
        self._variables = {element.variable for element in self._pattern}
        self._references: list[Reference] = []

    def bind(self) -> tuple[Node, Scope]:
        tree, node = self._tree, self._node
        rows = tree.args.get("rows")
        if rows is not None and str(rows.this).startswith("ALL"):
            refuse("ALL ROWS PER MATCH")
        plain = self._queries.expressions_in(self._scope)
        partition = []
        for part in tree.args.get("partition_by") or ():
            bound = plain.bind(part)
            if not isinstance(bound, e.Column):
                raise ValidationException("PARTITION BY of MATCH_RECOGNIZE takes columns")
            partition.append(bound)
        order = self._order(plain)
        definitions = []
        for item in tree.args.get("define") or ():
            if item.alias not in self._variables:
                raise ValidationException(f"Pattern variable '{item.alias}' is not in PATTERN")
            condition = self._bind(item.this)
            definitions.append((item.alias, self._queries.binder.condition(condition, "DEFINE")))
        names, measures = [], []
        for item in tree.args.get("measures") or ():
            named = item.this
            if not isinstance(named, exp.Alias):
                raise ValidationException("Each of MEASURES needs a name: expression AS name")
            names.append(named.alias)
            measures.append(self._bind(named.this))
        skip, variable = self._skip()
        within = tree.meta.get("within")
        specification = MatchSpecification(
            tuple(column.index for column in partition), order, self._pattern, tuple(definitions),
            tuple(measures), tuple(self._references), skip, variable,
            None if within is None else milliseconds(plain.bind(within), "WITHIN"),
        )  # fmt: skip
        fields = [Field(column.name, node.schema.fields[column.index].type) for column in partition]
        fields += [Field(n_, m.type) for n_, m in zip(names, measures, strict=True)]
        schema = Schema(tuple(fields))
        alias = tree.args.get("alias")
        relation = (alias.name,) if alias is not None and alias.name else ()
        made = n.Match(schema, node, specification)
        return made, Scope([Relation(relation, schema)], self._scope.outer)

    def _order(self, plain: Any) -> tuple[e.OrderItem, ...]:
        clause = self._tree.args.get("order")
        items = () if clause is None else tuple(plain.order_item(i) for i in clause.expressions)
        if not items or not is_time_attribute(items[0].expression.type):
            raise ValidationException(
                "You must specify either rowtime or proctime for order by as the first one."
            )
        if items[0].descending:
            raise ValidationException(
                "Primary sort order of a streaming table must be ascending on time."
            )
        if not all(isinstance(item.expression, e.Column) for item in items):
            raise ValidationException("ORDER BY of MATCH_RECOGNIZE takes columns")
        return items

    def _skip(self) -> tuple[str, str]:
        after = self._tree.args.get("after")
        if after is None:
            return "NEXT", ""
        text = str(after.this).removeprefix("AFTER MATCH SKIP ")
        if text in ("PAST LAST ROW", "TO NEXT ROW"):
            return text.removeprefix("TO ").removesuffix(" ROW"), ""
        _, kind, variable = text.split(" ", 2)
        if variable not in self._variables:
            raise ValidationException(f"Pattern variable '{variable}' is not in PATTERN")
        return kind, variable

    # Expressions ----------------------------------------------------------------------------------

    def _bind(self, tree: Any) -> Expression:
        if isinstance(tree, exp.MatchRecognizeMeasure):
            tree = tree.this
        return self._queries.expressions_in(self._scope, replaced=self._replaced).bind(tree)

    def _replaced(self, tree: Any) -> Expression | None:
        """Return the reference for a part of a tree; None for other parts."""
        if isinstance(tree, exp.Column) and not isinstance(tree.this, exp.Star):
            variable, value = self._value(tree)
            return self._reference(Reference("LAST", variable, value))
        name = _function_name(tree)
        if name in ("PREV", "NEXT"):
            raise TableException(f"{name} is not supported: use LAST(variable.column, 1)")
        if name in _TIMES:
            column = self._scope.resolve((self._time_name(),))
            kind: Any = column.type.not_null()
            is_row = name == "MATCH_ROWTIME"
            attribute = TimeAttribute.ROWTIME if is_row else TimeAttribute.PROCTIME
            typed = replace(column, type=kind.with_time_attribute(attribute))
            return self._reference(Reference("TIME", None, typed))
        if name in ("FIRST", "LAST"):
            value, *rest = tree.expressions
            offset = 0
            if rest:
                if not isinstance(rest[0], exp.Literal) or rest[0].is_string:
                    raise ValidationException(f"The offset of {name} must be a constant number")
                offset = int(str(rest[0].this))
            variable, bound = self._value(value)
            return self._reference(Reference(name, variable, bound, offset))
        if name and find_aggregate(name) is not None:
            if any(isinstance(part, exp.Distinct) for part in tree.expressions):
                raise TableException(
                    f"{name} with DISTINCT is not supported in MATCH_RECOGNIZE: deduplicate the "
                    "rows before it"
                )
            variable, bound = self._value(tree)
            return self._reference(Reference("AGGREGATE", variable, bound))
        return None

    def _time_name(self) -> str:
        for field in self._node.schema:
            if field.is_time:
                return field.name
        raise ValidationException("MATCH_ROWTIME needs a time attribute")

    def _value(self, tree: Any) -> tuple[str | None, Expression]:
        """Return the only variable of a tree, and its value over an input row."""
        found: set[str | None] = set()

        def replaced(part: Any) -> Expression | None:
            if not isinstance(part, exp.Column):
                return None
            if isinstance(part.this, exp.Star):
                return None
            names = tuple(p.name for p in part.parts)
            if len(names) > 1 and names[0] in self._variables:
                found.add(names[0])
                return self._scope.resolve(names[1:])
            found.add(None)
            return self._scope.resolve(names)

        if _function_name(tree) == "COUNT" and len(tree.expressions) == 1:
            (only,) = tree.expressions
            if isinstance(only, exp.Column) and isinstance(only.this, exp.Star):
                found.add(only.table)
                tree = exp.Anonymous(this="COUNT", expressions=[exp.Star()])
        bound = self._queries.expressions_in(self._scope, replaced=replaced).bind(tree)
        if len(found) > 1:
            raise ValidationException(
                f"'{tree.sql()}' reads rows of several variables: "
                f"{', '.join(sorted(str(v or 'all') for v in found))}"
            )
        return (found.pop() if found else None), bound

    def _reference(self, made: Reference) -> Expression:
        if made not in self._references:
            self._references.append(made)
        value = made.value
        # As in Flink, the value of a NOT NULL column is NOT NULL, unless it is one further back.
        kind = value.type.nullable() if made.offset else value.type
        if made.kind in ("FIRST", "LAST"):
            kind = without_time(kind)
        return e.Column(kind, self._references.index(made), str(made))


def _function_name(tree: Any) -> str:
    is_call = isinstance(tree, exp.Anonymous) and isinstance(tree.this, str)
    return tree.this.upper() if is_call else ""


def parse_pattern(text: str) -> tuple[PatternElement, ...]:
    """Parse the elements of a pattern.

    Raises:
        ValidationException: The text is not a pattern.
        TableException: Flink does not support the pattern.
    """
    elements: list[PatternElement] = []
    position = 0
    while position < len(text.rstrip()):
        found = _ELEMENT.match(text, position)
        if found is None:
            rest = text[position:].strip()
            if rest[0] in "(|)" or rest.startswith(("{-", "PERMUTE")):
                raise TableException(
                    f"Groups, alternatives and exclusions of patterns are not supported: '{rest}'"
                )
            raise ValidationException(f"Illegal pattern '{text}' at '{rest}'")
        name, quantifier, mark = found[1] or found[2], found[3] or "", found[4]
        least, most = _bounds(quantifier)
        if mark and quantifier == "?":
            raise TableException("Reluctant optional variables are not supported yet.")
        # As in Flink, an optional row is omitted if a shorter match is possible.
        elements.append(PatternElement(name, least, most, not mark and quantifier != "?"))
        position = found.end()
    names = [element.variable for element in elements]
    if len(set(names)) < len(names):
        raise TableException("A pattern variable that occurs twice is not supported")
    if all(element.least == 0 for element in elements):
        raise TableException(
            "Patterns that can produce empty matches are not supported. There must be at least one "
            "non-optional state."
        )
    last = elements[-1]
    if last.is_greedy and last.least != last.most:
        raise TableException(
            "Greedy quantifiers are not allowed as the last element of a Pattern yet. Finish your "
            "pattern with either a simple variable or reluctant quantifier."
        )
    return tuple(elements)


def _bounds(quantifier: str) -> tuple[int, int | None]:
    simple: dict[str, tuple[int, int | None]] = {
        "": (1, 1), "*": (0, None), "+": (1, None), "?": (0, 1),
    }  # fmt: skip
    if quantifier in simple:
        return simple[quantifier]
    found = _BOUNDS.fullmatch(quantifier)
    if found is None:
        raise ValidationException(f"Illegal quantifier '{quantifier}'")
    low, comma, high = found.groups()
    if not comma:
        return int(low), int(low)
    return int(low or 0), int(high) if high else None


class _Element:
    """The condition of an element, represented by the element's position."""

    def __init__(self, position: int) -> None:
        self.position = position

    def __call__(self, row: Any, match: Any) -> bool:
        del row, match
        raise AssertionError("the operator has the conditions of elements")


def automaton(specification: MatchSpecification) -> CompiledPattern:
    """Return the automaton of a pattern, with the positions of elements as conditions.

    Raises:
        TableException: Its elements do not fit together.
    """
    from penstock.cep import MalformedPatternError
    from penstock.cep.compilation import compile_pattern

    try:
        return compile_pattern(
            _pattern(specification),
            lambda call: PatternCondition(call.given.position, is_iterative=True),
        )
    except MalformedPatternError as error:
        raise TableException(f"PATTERN cannot be matched: {error.args[0]}") from None


def _pattern(specification: MatchSpecification) -> Pattern:
    """Return the elements as a pattern, as Flink translates them."""
    from penstock.cep import Pattern, SkipStrategy
    from penstock.common.time import Duration

    skips = {
        "PAST LAST": SkipStrategy.skip_past_last_event,
        "NEXT": SkipStrategy.skip_to_next,
    }
    if specification.skip in skips:
        strategy = skips[specification.skip]()
    elif specification.skip == "FIRST":
        strategy = SkipStrategy.skip_to_first(specification.skip_variable)
        strategy = strategy.throw_exception_on_miss()
    else:
        strategy = SkipStrategy.skip_to_last(specification.skip_variable)
        strategy = strategy.throw_exception_on_miss()
    pattern: Pattern | None = None
    for position, element in enumerate(specification.pattern):
        name = element.variable
        pattern = Pattern.begin(name, strategy) if pattern is None else pattern.next(name)
        pattern = _quantified(pattern.where(_Element(position)), element)
    assert pattern is not None, "a pattern has elements"
    if specification.within_ms is not None:
        pattern = pattern.within(Duration.of_millis(specification.within_ms))
    return pattern


def _quantified(pattern: Pattern, element: PatternElement) -> Pattern:
    least, most = element.least, element.most
    if (least, most) == (1, 1):
        return pattern
    if (least, most) == (0, 1):
        return pattern.optional()
    if most is not None:
        pattern = pattern.times(least, most)
    elif least == 0:
        pattern = pattern.one_or_more().optional()
    else:
        pattern = pattern.times_or_more(least)
    pattern = pattern.consecutive()
    return pattern.greedy() if element.is_greedy and least != most else pattern


def references_type(references: Sequence[Reference]) -> Schema:
    """Return the schema of the columns that definitions and measures read."""
    fields = []
    for position, reference in enumerate(references):
        kind = reference.value.type
        if reference.kind != "AGGREGATE":
            kind = without_time(kind.nullable())
        fields.append(Field(f"r{position}", kind))
    return Schema(tuple(fields))


#: The condition of a variable without a definition.
ALWAYS: Final = e.Literal(types.BooleanType(nullable=False), True)
