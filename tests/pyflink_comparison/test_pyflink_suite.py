"""The recorded verdicts of PyFlink's own tests; `make compare-pyflink-suite` runs these tests."""

import json
import re
from pathlib import Path

from pyflink_comparison.pyflink_suite import run

DOCUMENT = Path(__file__).parents[2] / "docs" / "pyflink.md"
WORDS = {run.PASSES, run.SWITCHED_OFF, run.NEEDS_JAVA}


def recorded():
    return json.loads(run.RECORDED.read_text())


def test_every_test_passes_or_has_its_reason():
    items = [line for line in DOCUMENT.read_text().splitlines() if line.startswith("- ")]
    for test, verdict in recorded().items():
        if verdict.startswith(run.DIFFERS):
            words = verdict.removeprefix(run.DIFFERS)
            assert any(words in item for item in items), f"docs/pyflink.md lacks {words!r}: {test}"
        else:
            assert verdict in WORDS, test


def test_tests_have_their_full_names():
    name = re.compile(r"(common|datastream)(\.\w+)*\.tests\.test_\w+\.\w+\.test_\w+")
    assert [test for test in recorded() if not name.fullmatch(test)] == []
    assert len(recorded()) > 350


def test_a_new_verdict_is_reported():
    known = {"a": run.PASSES, "b": f"{run.DIFFERS}Words", "c": run.PASSES}
    found = {"a": f"{run.FAILS}E", "b": f"{run.FAILS}E", "c": run.PASSES, "d": run.PASSES}
    assert run.different(found, known) == [
        f"a: {run.FAILS}E (recorded: passes)",
        "d: passes (not recorded)",
    ]


def test_a_difference_that_is_gone_is_reported():
    assert run.different({"b": run.PASSES}, {"b": f"{run.DIFFERS}Words"}) == [
        "b: passes (recorded: differs: Words)"
    ]
