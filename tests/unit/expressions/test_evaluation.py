"""Generated functions behave in penstock's operators as in plain Python.

They have the same results, side effects and errors, with the same user lines, at every place for a
function and at every position of a chain; `make fuzz` continues with other seeds.
"""

import pytest
from penstock.expressions.evaluation import Evaluation
from penstock.network import runtime
from support.evaluation.comparison import Running, compare
from support.evaluation.sources import PLACES

#: With all their elements these cases make more than 100,000 comparisons.
CASES = 6_000
SEED = "penstock"
PARTS = 6
#: `make test` runs a third of the cases.
ALL_PARTS = [pytest.param(part, marks=[pytest.mark.slow] * (part >= 2)) for part in range(PARTS)]

pytestmark = pytest.mark.skipif(runtime() != "native", reason="only the native runtime evaluates")


@pytest.mark.parametrize("part", ALL_PARTS)
def test_generated_functions_give_what_they_give_in_plain_python(part):
    comparisons = 0
    numbers = range(part, CASES, PARTS)
    for first in range(0, len(numbers), 100):
        made, reports = compare(SEED, numbers[first : first + 100])
        assert not reports, "\n\n".join(reports[:3])
        comparisons += made
    assert comparisons * PARTS >= 100_000


def test_many_of_the_generated_functions_are_evaluated():
    """Otherwise the comparisons would show nothing."""
    evaluated = total = 0
    for number in range(100):
        running = Running(SEED, number)
        for index, (place, _) in enumerate(running.case.stages):
            total += 1
            function = running.tested.function(place, index)
            evaluated += Evaluation().program(function, PLACES[place][2]) is not None
        running.close()
    assert evaluated > total / 3, f"{evaluated} of {total}"
