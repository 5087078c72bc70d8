"""Cases of patterns and sequences of events; as a program, it prints them as JSON.

The first ones are named and written by hand, after the features in Flink's documentation.  The
others are generated, with a fixed seed, so that quantifiers, contiguities and skip strategies occur
in unusual combinations.
"""

from __future__ import annotations

import json
import random
import sys
from typing import Any, Final

_BY: Final = ("next", "followed_by", "followed_by_any")
_SEED: Final = 20260411
_GENERATED: Final = 460


def is_(name: str, by: str = "begin", *calls: Any, kind: str | None = None) -> dict[str, Any]:
    """Return a part that accepts the events of a kind, by default that of its name."""
    part: dict[str, Any] = {"by": by, "name": name, "where": ["is", kind or name]}
    if calls:
        part["calls"] = [[call] if isinstance(call, str) else list(call) for call in calls]
    return part


def where(name: str, by: str, condition: list[Any], *calls: Any) -> dict[str, Any]:
    """Return a part with an additional condition."""
    return is_(name, by, *calls) | {"where": condition}


def group(by: str, parts: list[Any], *calls: Any) -> dict[str, Any]:
    """Return a group."""
    return {
        "by": by,
        "group": parts,
        "calls": [[call] if isinstance(call, str) else list(call) for call in calls],
    }


def _timed(events: str) -> str:
    """Return events with timestamps; one without a timestamp is 1 ms after the previous one."""
    time, timed = 0, []
    for event in events.split():
        name, _, stamp = event.partition("@")
        time = int(stamp) if stamp else time + 1
        timed.append(f"{name}@{time}")
    return " ".join(timed)


def case(
    name: str, parts: list[Any], events: str, skip: list[Any] | None = None, end: int | None = None
) -> dict[str, Any]:
    """Return a case."""
    made: dict[str, Any] = {"name": name, "parts": parts, "events": _timed(events)}
    if skip is not None:
        made["skip"] = skip
    if end is not None:
        made["end"] = end
    return made


_LOOP = "one_or_more"
_CONS = "consecutive"
_ANY = "allow_combinations"


def by_hand() -> list[dict[str, Any]]:
    """Return the cases that have names."""
    a, c = is_("a"), is_("c", "followed_by")
    found = [
        case("strict", [a, is_("b", "next")], "a c b1 b2"),
        case("relaxed", [a, is_("b", "followed_by")], "a c b1 b2"),
        case("non-deterministic", [a, is_("b", "followed_by_any")], "a c b1 b2"),
        case("loop relaxed", [a, is_("b", "followed_by_any", _LOOP), c], "a b1 d1 b2 d2 b3 c"),
        case(
            "loop consecutive",
            [a, is_("b", "followed_by_any", _LOOP, _CONS), c],
            "a b1 d1 b2 d2 b3 c",
        ),
        case(
            "loop with combinations",
            [a, is_("b", "followed_by_any", _LOOP, _ANY), c],
            "a b1 d1 b2 d2 b3 c",
        ),
        case(
            "consecutive after relaxed",
            [is_("c"), is_("a", "followed_by", _LOOP, _CONS), is_("b", "followed_by")],
            "c d a1 a2 a3 d a4 b",
        ),
        case("until", [is_("a", "begin", _LOOP, ("until", ["is", "b"]))], "a1 c a2 b a3"),
        case(
            "until the stop is one itself",
            [
                is_("c"),
                is_("a", "followed_by", _LOOP, ("until", ["above", 8])),
                where("stop", "followed_by", ["above", 8]),
            ],
            "c a1 a2 a9 a3",
        ),
        case(
            "iterative sum",
            [
                is_("s"),
                where(
                    "a",
                    "followed_by",
                    ["both", ["is", "a"], ["sum_below", "a", 6]],
                    _LOOP,
                    _ANY,
                ),
                is_("e", "followed_by"),
            ],
            "s a1 a2 a3 a4 e",
        ),
        case(
            "rise then drop",
            [
                is_("start", kind="t"),
                where("up", "next", ["rising", "up"], _LOOP, _CONS, "greedy"),
                where("down", "next", ["in", "t"]),
            ],
            "t1 t2 t3 t2 t1 t5 t6 t3",
            ["past_last_event"],
        ),
    ]
    for name, skip in _skips("b", "c"):
        found += [
            case(
                f"loop {' '.join(greedy)} {name}",
                [is_("b", "begin", _LOOP, _CONS, *greedy), is_("c", "next")],
                "b1 b2 b3 c1 b4 c2",
                skip,
            )
            for greedy in ((), ("greedy",))
        ]
        found.append(
            case(
                f"combinations {name}",
                [is_("b", "begin", ("times", 2)), is_("c", "followed_by_any")],
                "b1 b2 c1 b3 c2 c3",
                skip,
            )
        )
    found += _skipping() + _negative() + _timing() + _groups() + _malformed()
    return found


def _skips(first: str, last: str) -> list[tuple[str, list[Any] | None]]:
    return [
        ("no skip", None),
        ("to next", ["to_next"]),
        ("past last event", ["past_last_event"]),
        (f"to first {first}", ["to_first", first]),
        (f"to last {first}", ["to_last", first]),
        (f"to first {last}", ["to_first", last]),
        (f"to last {last}", ["to_last", last]),
    ]


def _skipping() -> list[dict[str, Any]]:
    optional = [is_("a"), is_("b", "next", _LOOP, _CONS, "optional"), is_("c", "next")]
    any_b = [is_("a"), is_("b", "followed_by_any")]
    overlap = [
        is_("a"),
        where("ab", "followed_by", ["in", "ab"], _LOOP),
        is_("c", "followed_by"),
    ]
    found = [
        case("to next", any_b, "a1 b1 a2 b2", ["to_next"]),
        case("no skip of the same", any_b, "a1 b1 a2 b2"),
        case("miss is ignored", optional, "a c", ["to_first", "b"]),
        case("miss fails", optional, "a c", ["to_first", "b", "throws"]),
        case("no miss", optional, "a b c", ["to_first", "b", "throws"]),
        case("to itself fails", any_b, "a1 b1", ["to_first", "a", "throws"]),
        case("to last itself fails", any_b, "a1 b1", ["to_last", "a", "throws"]),
        case("to itself", any_b, "a1 b1 b2", ["to_first", "a"]),
    ]
    for name, skip in _skips("a", "ab"):
        found.append(case(f"overlapping {name}", overlap, "a1 a2 b1 a3 c1 b2 c2", skip))
    return found


def _negative() -> list[dict[str, Any]]:
    d = is_("d", "followed_by")
    found = [
        case(
            "not next",
            [is_("a"), is_("n", "not_next", kind="b"), is_("c", "followed_by_any"), d],
            "a c1 b c2 d",
        ),
        case(
            "not next hits",
            [is_("a"), is_("n", "not_next", kind="b"), is_("c", "followed_by_any"), d],
            "a b c1 c2 d",
        ),
        case("not next at the end", [is_("a"), is_("n", "not_next", kind="b")], "a1 a2 b a3 c"),
        case(
            "not followed by",
            [is_("a"), is_("n", "not_followed_by", kind="b"), is_("c", "followed_by_any")],
            "a1 c1 a2 b c2",
        ),
        case(
            "not followed by at the end",
            [is_("a"), is_("n", "not_followed_by", ("within", 5), kind="b")],
            "a1@1 a2@3 b@4 a3@6 d@20",
            end=40,
        ),
        case(
            "not followed by at the end, windows of records",
            [is_("a"), is_("n", "not_followed_by", ("within_previous", 5), kind="b")],
            "a1@1 a2@3 b@4 a3@6 d@20",
            end=40,
        ),
        case(
            "two negative parts",
            [
                is_("a"),
                is_("n", "not_followed_by", kind="b"),
                is_("m", "not_followed_by", kind="c"),
                d,
            ],
            "a1 d1 a2 b d2 a3 c d3 a4 d4",
        ),
    ]
    for calls in (
        ("optional",),
        (_LOOP,),
        (_LOOP, "optional"),
        (("times", 2),),
        (("times", 0, 2),),
        (("times_or_more", 2),),
        (_LOOP, _CONS, "optional"),
        (_LOOP, _ANY, "optional"),
    ):
        name = " ".join(str(call) for call in calls)
        found += [
            case(
                f"not followed by before {name} {by}",
                [is_("a"), is_("n", "not_followed_by", kind="b"), is_("c", by, *calls), d],
                "a1 c1 b1 c2 c3 d1 b2 d2",
            )
            for by in _BY[1:]
        ]
        found.append(
            case(
                f"not followed by before, nothing between, {name}",
                [
                    is_("a"),
                    is_("n", "not_followed_by", kind="b"),
                    is_("c", "followed_by", *calls),
                    d,
                ],
                "a1 b1 c2 c3 d1 a2 d2",
            )
        )
    found += [
        case(
            f"not followed by after {calls}",
            [is_("a", "begin", *calls), is_("n", "not_followed_by", kind="b"), d],
            "a1 a2 b1 a3 a4 d1 d2",
        )
        for calls in ((_LOOP,), (_LOOP, _CONS), (("times", 2),), (("times", 1, 3),))
    ]
    return found


def _timing() -> list[dict[str, Any]]:
    three = [is_("s"), is_("m", "followed_by_any"), is_("e", "followed_by_any", ("within", 10))]
    login = [
        is_("f", "begin", ("times_or_more", 3)),
        is_("o", "followed_by", ("within", 10)),
    ]
    smallest = [
        is_("s", "begin", ("within", 20)),
        is_("m", "followed_by", ("within", 5)),
        is_("e", "followed_by", ("within", 10)),
    ]
    found = [
        case("exactly the window", three, "s1@1 s2@2 m@3 x@4 e@11 e@13", end=30),
        case("login", login, "f1@1 f2@2 f3@3 f4@9 o1@10 f5@12 f6@13 o2@20", end=99),
        case("smallest window", smallest, "s1@1 m@3 e1@5 s2@10 m@12 e2@15 x@40", end=99),
        case(
            "windows of records",
            [
                is_("s"),
                is_("m", "followed_by", ("within_previous", 5)),
                is_("e", "followed_by", ("within_previous", 10)),
            ],
            "s1@1 m1@5 e1@14 s2@20 m2@26 e2@27 s3@30 m3@31 e3@45",
            end=99,
        ),
        case(
            "loop with a window",
            [is_("a", "begin", (_LOOP, 3)), is_("b", "followed_by")],
            "a1@1 a2@3 a3@7 b@8",
            end=99,
        ),
        case(
            "times with a window",
            [is_("a", "begin", ("times_within", 3, 3)), is_("b", "followed_by")],
            "a1@1 a2@3 a3@5 a4@9 b@10",
            end=99,
        ),
        case(
            "one moment",
            [is_("a"), is_("b", "followed_by"), is_("c", "followed_by")],
            "a1@1 a1@1 b1@1 b1@1 c1@1",
        ),
        case("equal events", [is_("a", "begin", ("times", 2)), c_next()], "a1@1 a1@1 a1@1 c@1"),
    ]
    for name, skip in _skips("s", "e"):
        found.append(
            case(f"timeouts {name}", three, "s1@1 s2@2 m1@3 m2@5 e1@8 e2@11 e3@13", skip, end=50)
        )
        found.append(
            case(
                f"waiting for time {name}",
                [
                    is_("s"),
                    is_("e", "followed_by"),
                    is_("n", "not_followed_by", ("within", 10), kind="x"),
                ],
                "s1@1 s2@2 e1@3 e2@4 x@11 s3@20 e3@21",
                skip,
                end=60,
            )
        )
    return found


def c_next() -> dict[str, Any]:
    """Return a strict part that accepts events of the kind c."""
    return is_("c", "next")


def _groups() -> list[dict[str, Any]]:
    pair = [is_("a"), is_("b", "followed_by")]
    strict = [is_("a"), is_("b", "next")]
    quantifiers: list[tuple[Any, ...]] = [
        (),
        ("optional",),
        (_LOOP,),
        (_LOOP, "optional"),
        (("times", 2),),
        (("times", 2), "optional"),
        (("times", 0, 2),),
        (("times_or_more", 2),),
        (_LOOP, _CONS),
        (_LOOP, _ANY),
        (("times", 2), _CONS),
        (("times", 2), _ANY),
        (_LOOP, ("until", ["is", "x"])),
    ]
    found = [
        case(
            f"group {by} {calls}",
            [is_("s"), group(by, pair, *calls), is_("e", "followed_by")],
            "s a1 b1 d a2 b2 a3 x b3 e1",
        )
        for by in _BY
        for calls in quantifiers
    ]
    for calls in ((), (_LOOP,), (("times", 2),), ("optional",), (_LOOP, _CONS, "optional")):
        found.append(
            case(
                f"group first {calls}",
                [group("begin", strict, *calls), is_("e", "followed_by")],
                "a1 b1 a2 b2 d a3 b3 e1",
            )
        )
        found.append(
            case(
                f"group last {calls}",
                [is_("s"), group("followed_by", pair, *calls)],
                "s a1 b1 d a2 b2",
            )
        )
        # Flink's automaton never ends if a loop can skip all of its parts.
        if not calls or calls[0] != _LOOP:
            found.append(
                case(
                    f"group with optional parts {calls}",
                    [
                        is_("s"),
                        group(
                            "followed_by",
                            [is_("a", "begin", "optional"), is_("b", "followed_by", "optional")],
                            *calls,
                        ),
                        is_("e", "followed_by"),
                    ],
                    "s a1 b1 a2 e1 b2 e2",
                )
            )
    return found


def _malformed() -> list[dict[str, Any]]:
    a, events = is_("a"), "a1 b1"
    return [
        case("names twice", [a, is_("a", "next")], events),
        case("ends with not followed by", [a, is_("b", "not_followed_by")], events),
        case(
            "negative behind optional",
            [is_("a", "begin", "optional"), is_("b", "not_next")],
            events,
        ),
        case(
            "negative behind optional, relaxed",
            [is_("a", "begin", "optional"), is_("b", "not_followed_by"), is_("c", "next")],
            events,
        ),
        case("negative and repeated", [a, is_("b", "not_next", _LOOP)], events),
        case("negative and optional", [a, is_("b", "not_next", "optional")], events),
        case("greedy single", [is_("a", "begin", "greedy")], events),
        case("greedy combinations", [is_("a", "begin", _LOOP, _ANY, "greedy")], events),
        case("quantifier twice", [is_("a", "begin", _LOOP, ("times", 2))], events),
        case("optional twice", [is_("a", "begin", "optional", "optional")], events),
        case("consecutive single", [is_("a", "begin", _CONS)], events),
        case("combinations single", [is_("a", "begin", _ANY)], events),
        case("consecutive and combinations", [is_("a", "begin", _LOOP, _CONS, _ANY)], events),
        case("until of times", [is_("a", "begin", ("times", 2), ("until", ["is", "b"]))], events),
        case(
            "until twice",
            [is_("a", "begin", _LOOP, ("until", ["is", "b"]), ("until", ["is", "c"]))],
            events,
        ),
        case(
            "optional behind greedy",
            [is_("a", "begin", _LOOP, "greedy"), is_("b", "next", "optional")],
            events,
        ),
        case("greedy group", [group("begin", [a], _LOOP, "greedy")], events),
        case("skips to nowhere", [a], events, ["to_first", "x"]),
        case("no times", [is_("a", "begin", ("times", 0))], events),
        case("more at least than at most", [is_("a", "begin", ("times", 3, 2))], events),
        case(
            "window of records longer",
            [a, is_("b", "next", ("within_previous", 20), ("within", 10))],
            events,
        ),
    ]


def generated() -> list[dict[str, Any]]:
    """Return random cases, always the same ones."""
    chance = random.Random(_SEED)
    return [_random_case(chance, index) for index in range(_GENERATED)]


def _random_case(chance: random.Random, index: int) -> dict[str, Any]:
    parts: list[dict[str, Any]] = []
    for kind in "abcd"[: chance.choice((2, 3, 3, 4))]:
        if not parts:
            parts.append(is_(kind, "begin", *_random_calls(chance, is_first=True)))
        elif chance.random() < 0.14 and not _is_optional(parts[-1]) and kind != "d":
            by = chance.choice(("not_next", "not_followed_by"))
            parts.append(is_(kind, by))
        else:
            is_greedy = ["greedy"] in parts[-1].get("calls", [])
            calls = _random_calls(chance, is_first=False, is_behind_greedy=is_greedy)
            parts.append(is_(kind, chance.choice(_BY), *calls))
        if chance.random() < 0.12 and "not" not in parts[-1]["by"]:
            parts[-1]["where"] = ["in", kind + chance.choice("abc")]
    if parts[-1]["by"] == "not_followed_by":
        parts[-1].setdefault("calls", []).append(["within", chance.choice((4, 8))])
    elif chance.random() < 0.2:
        parts[-1].setdefault("calls", []).append(["within", chance.choice((3, 6, 9))])
    if chance.random() < 0.15 and len(parts) > 2 and "not" not in parts[1]["by"]:
        first = parts[1] | {"by": "begin"}
        if _is_optional(first):
            # See above: Flink's automaton would never end.
            first.pop("calls")
        calls = [
            call
            for call in _random_calls(chance, is_first=False, is_behind_greedy=True)
            if call != "greedy"
        ]
        parts[1] = group(parts[1]["by"], [first], *calls)
    names = [part["name"] for part in parts if "name" in part and "not" not in part["by"]]
    skip = chance.choice(
        (
            None,
            None,
            None,
            ["to_next"],
            ["past_last_event"],
            ["to_first", chance.choice(names)],
            ["to_last", chance.choice(names)],
        )
    )
    events, time = [], 1
    for step in range(chance.randint(6, 9)):
        kind = chance.choice("aabbccdx")
        events.append(f"{kind}{step}@{time}")
        time += chance.choice((0, 1, 1, 1, 2))
    return case(f"random {index}", parts, " ".join(events), skip, end=time + 20)


def _is_optional(part: dict[str, Any]) -> bool:
    return any(call[0] == "optional" or call[:2] == ["times", 0] for call in part.get("calls", ()))


def _random_calls(
    chance: random.Random, *, is_first: bool, is_behind_greedy: bool = False
) -> list[Any]:
    quantifier = chance.choice(
        (
            None,
            None,
            None,
            (_LOOP,),
            (_LOOP,),
            ("times_or_more", 2),
            ("times", 2),
            ("times", 1, 2),
            ("times", 2, 3),
            ("times", 0, 2),
        )
    )
    calls: list[Any] = []
    if quantifier is not None:
        calls.append(quantifier)
        inner = chance.choice((None, None, _CONS, _ANY))
        if inner is not None:
            calls.append(inner)
        if inner != _ANY and chance.random() < 0.3:
            calls.append("greedy")
        if quantifier[0] in (_LOOP, "times_or_more") and chance.random() < 0.2:
            calls.append(("until", ["is", chance.choice("cdx")]))
    is_taken = quantifier is not None and quantifier[:2] == ("times", 0)
    if not is_taken and not is_behind_greedy and chance.random() < (0.1 if is_first else 0.25):
        calls.append("optional")
    return calls


def all_cases() -> list[dict[str, Any]]:
    """Return all cases."""
    return by_hand() + generated()


if __name__ == "__main__":
    json.dump(all_cases(), sys.stdout)
