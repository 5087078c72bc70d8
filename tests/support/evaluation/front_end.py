"""Comparison of the byte-code front end's programs with their functions, in any interpreter.

As a script it needs only penstock's sources and prints the number of comparisons.
"""

import random
import sys
import warnings

from penstock.expressions.bytecode import NotComputedError, translate
from penstock.expressions.bytecode_tables import TABLES
from penstock.expressions.program import ProgramBuilder
from support.evaluation.reference import GivenUpError, run
from support.evaluation.sources import FAMILIES, PLACES, STAND_INS, Case

CASES = 2000

#: Functions that every version must recognise.
ALWAYS = [
    "lambda a: a",
    "lambda a: a[0] + 1",
    "lambda a: (a, a)",
    "lambda a: [a, 1]",
    "lambda a, k=3: a * k",
    "lambda a: 1 if a else 2",
    "lambda a: 1 if a is None else a",
    "lambda a: 1 if a is not None and a > 3 else a",
    "lambda a: a > 3",
    "lambda a: 0 < a <= 10 and a != 5",
    "lambda a: not a",
    "lambda a: not (a > 3 or a < -3)",
    "lambda a: not not a",
    "lambda a: (not not a, not a)",
    "lambda a: 1 if not not a else 2",
    "lambda a: (not not a) or 2",
    "lambda a: -a",
    "lambda a: ~a",
    "lambda a: a or 'x'",
    "lambda a: a in (1, 2)",
    "lambda a: a not in (1, 2)",
    "lambda a: a['k']",
    "lambda a: 'x' if a == 'y' else ('z' if a else None)",
    "lambda a: a << 2 >> 1 ** 2 // 3 % 4 / 5 & 6 | 7 ^ 8 - 9",
    "lambda a: G + a",
    "lambda a: None",
    "lambda a: 5",
]
TWO = "lambda a, b: a + b"

#: Functions that no version may misinterpret.
NEVER = [
    "(lambda c: lambda a: (lambda q: q + c)(a))(3)",
    "(lambda c: lambda a: [q + c for q in a])(3)",
    "lambda a: lambda: a",
    "lambda a: [q for q in a]",
    "lambda a: {q: a for q in a}",
    "lambda a: (yield a)",
    "lambda a: f'{a}'",
    "lambda a: a[1:2]",
    "lambda a: a.b",
    "lambda a: a.b()",
    "lambda a: a()",
    "lambda a: len(a)",
    "lambda a: {a}",
    "lambda a: {'k': a}",
    "lambda a: [*a, 1]",
    "lambda a: a @ a",
    "lambda a: (b := a)() and b",
    "lambda *a: a",
    "lambda **a: a",
    "lambda a, *, b=1: a",
]


def program_of(function, arguments):
    builder = ProgramBuilder()
    registers = [builder.register() for _ in range(arguments)]
    try:
        result = translate(builder, function, registers)
    except NotComputedError:
        return None
    builder.emit("return", left=result)
    return builder.program(arguments)


def outcome(function, *arguments):
    try:
        found = function(*arguments)
    except GivenUpError:
        return None
    except Exception as error:
        # A failed evaluation is abandoned, and the function is called.
        return type(error).__name__, None
    return type(found).__name__, repr(found)


def compare_generated(number):
    """Compare the functions of one case; return the number of programs."""
    chooser = random.Random(f"front end/{number}")
    place = chooser.choice(list(PLACES))
    family = chooser.choice(list(FAMILIES))
    arguments = PLACES[place][2]
    case = Case(chooser)
    case.add(place, [family] * arguments, chooser.choice(list(FAMILIES)))
    scope = {"__name__": "generated"}
    exec(compile(STAND_INS, "<stand-ins>", "exec"), scope)
    exec(compile(case.text(), f"<case {number}>", "exec"), scope)
    function = scope["stages"][0]
    function = getattr(function, PLACES[place][1], function)
    program = program_of(function, arguments)
    if program is None:
        return 0
    for _ in range(6):
        texts = case.values(family, arguments)
        values = [eval(text, scope) for text in texts]
        found = outcome(run, program, *values)
        values = [eval(text, scope) for text in texts]
        expected = outcome(function, *values)
        if found not in (None, expected):
            sys.exit(f"case {number}: {found}, not {expected} for {values}\n{case.text()}")
    return 1


def main():
    warnings.simplefilter("ignore")
    if sys.version_info[:2] not in TABLES:
        if program_of(lambda a: a, 1) is not None:
            sys.exit("a version without a table has programs")
        print("no table")
        return
    for text in ALWAYS:
        function = eval(text, {"G": 4})
        program = program_of(function, 1)
        if program is None:
            sys.exit(f"not recognised: {text}")
        for value in (None, 0, 3, 7.5, -8, "y", (1, 2), {"k": 1}):
            found, expected = outcome(run, program, value), outcome(function, value)
            if found != expected:
                sys.exit(f"{text} of {value!r}: {found}, not {expected}")
    for text in NEVER:
        if program_of(eval(text), 1) is not None:
            sys.exit(f"recognised: {text}")
    if program_of(eval(TWO), 2) is None:
        sys.exit(f"not recognised: {TWO}")
    recognised = sum(compare_generated(number) for number in range(CASES))
    if recognised < CASES // 4:
        sys.exit(f"only {recognised} of {CASES} generated functions were recognised")
    print(f"{recognised} of {CASES} generated functions")


if __name__ == "__main__":
    main()
