"""Patterns match what Flink's own automata match.

``recorded.json`` holds the cases of ``support/pattern_cases.py`` with the results of Flink 2.3.0;
``recorder/record.sh FOLDER`` records it again with the jars of Flink in a folder.
"""

import json
from pathlib import Path

import pytest
from penstock.cep import MalformedPatternError
from penstock.errors import IllegalStateError
from penstock.testing import feed_pattern
from support.pattern_cases import all_cases
from support.pattern_descriptions import pattern_of

RECORDED = json.loads((Path(__file__).parent / "recorded.json").read_text())

#: Flink's errors, and the corresponding error of a pattern or a match here.
ERRORS = {
    "MalformedPatternException": MalformedPatternError,
    "UnsupportedOperationException": MalformedPatternError,
    "IllegalArgumentException": MalformedPatternError,
    "FlinkRuntimeException": IllegalStateError,
}


def fed(case):
    """Run a case and return the result in the form of the recording."""
    events = [event.split("@") for event in case["events"].split()]
    result = feed_pattern(
        pattern_of(case),
        [(event, int(time)) for event, time in events],
        until=case.get("end"),
    )

    def texts(match):
        return {name: " ".join(values) for name, values in match.items()}

    return (
        [texts(match) for match in result.matches],
        [(texts(match), end) for match, end in result.timed_out],
    )


def test_the_recording_is_of_these_cases():
    """A changed case must be recorded again."""
    assert len(RECORDED) > 400
    cases = [
        {name: value for name, value in case.items() if name not in ("result", "error", "message")}
        for case in RECORDED
    ]
    assert cases == all_cases()


@pytest.mark.parametrize("case", RECORDED, ids=[case["name"] for case in RECORDED])
def test_matches_are_those_of_flink(case):
    """Matches, their order, timeouts and errors are equal."""
    if "error" in case:
        with pytest.raises(ERRORS[case["error"]]):
            fed(case)
        return
    matches = [step[1] for step in case["result"] if step[0] == "match"]
    timed_out = [(step[1], step[2]) for step in case["result"] if step[0] == "timeout"]
    assert fed(case) == (matches, timed_out)
