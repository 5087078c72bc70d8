"""Later changes never reach records that an operator has emitted or stored in state.

Goal: a program whose functions mutate their arguments and results produces the same as with a deep
copy at every such place, and with object reuse the sharing is visible. Method: each program runs
three times: as it is, with copies made by hand, and with object reuse.
"""

import copy
import os
import subprocess
import sys
from pathlib import Path

import pytest
from penstock.common import Types
from penstock.errors import ValueCopyError
from penstock.expressions.evaluation import Evaluation
from penstock.network import runtime
from penstock.taskexecutor.compiled import ChainingOutput, CopyingChainingOutput
from penstock.taskexecutor.copies.isolation import never_changes, only_computes
from penstock.testing import PipelineTestHarness
from support.changing_programs import (
    ANY,
    PROGRAMS,
    REUSE,
    SAME_WITH_REUSE,
)


def results(build, copied, configuration=None):
    harness = PipelineTestHarness(configuration or {})
    build(harness, copied)
    with harness:
        for number in range(3):
            for source in harness._sources:
                harness.process_element(source, ["a", str(number), source], number)
        for source in harness._sources:
            harness.process_watermark(source, 30)
        harness.end_inputs()
        return {
            name: [record.value for record in harness.output(name).records]
            for name in harness._sinks
        }


def itself(value):
    return value


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_nothing_is_reached_by_later_changes(name):
    expected = results(PROGRAMS[name], copy.deepcopy, REUSE)
    assert results(PROGRAMS[name], itself) == expected
    assert all(expected.values())


@pytest.mark.parametrize("name", sorted(set(PROGRAMS) - SAME_WITH_REUSE))
def test_with_object_reuse_objects_are_shared(name):
    assert results(PROGRAMS[name], itself, REUSE) != results(PROGRAMS[name], itself)


def test_batch_execution_keeps_records_for_itself():
    batch = {"execution.runtime-mode": "BATCH"}
    for name in ("a_fork", "value_state", "tumbling_windows", "a_fold"):
        expected = results(PROGRAMS[name], copy.deepcopy, REUSE | batch)
        assert results(PROGRAMS[name], itself, batch) == expected


def edges(build, configuration=None):
    """Return the kinds of the outputs between a program's operators, by operator name."""
    harness = PipelineTestHarness(configuration or {})
    build(harness, itself)
    with harness:
        chain = harness._chain
        return {
            context.name: type(operator.output)
            for operator, context in zip(chain.operators, chain.contexts, strict=True)
        }


def called(value):
    return value.strip()


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        (Types.STRING(), ChainingOutput),
        (Types.TUPLE([Types.LONG(), Types.TUPLE([Types.SQL_TIMESTAMP()])]), ChainingOutput),
        (Types.ROW([Types.LONG()]), CopyingChainingOutput),
        (Types.LIST(Types.LONG()), CopyingChainingOutput),
        (Types.TUPLE([Types.MAP(Types.LONG(), Types.LONG())]), CopyingChainingOutput),
        (ANY, CopyingChainingOutput),
        (None, CopyingChainingOutput),
    ],
)
def test_declared_types_decide_before_the_first_record(declared, expected):
    def build(harness, copied):
        stream = harness.source("in").map(called, declared).name("typed")
        harness.sink("out", stream)

    assert edges(build)["typed"] is expected
    assert edges(build, REUSE)["typed"] is ChainingOutput
    assert never_changes(declared) == (expected is ChainingOutput)


FACTOR = 3
SHARED = []


@pytest.mark.skipif(runtime() == "pure", reason="calls every function")
def test_functions_that_only_compute_need_no_copies():
    assert only_computes(lambda v: (v, v[0] * FACTOR), Evaluation())
    assert not only_computes(lambda v: (v, SHARED), Evaluation())
    assert only_computes(lambda v, k=2: (v, k), Evaluation())
    assert not only_computes(lambda v, shared=[]: (v, shared), Evaluation())
    assert not only_computes(called, Evaluation())

    def build(harness, copied):
        stream = harness.source("in").map(lambda v: (v, 1)).name("computing")
        harness.sink("out", stream)

    assert edges(build)["computing"] is ChainingOutput


def test_a_value_that_cannot_be_copied_is_named_with_its_operator():
    def build(harness, copied):
        stream = harness.source("in").map(lambda v: (item for item in called(v))).name("lazy")
        harness.sink("out", stream)

    harness = PipelineTestHarness()
    build(harness, itself)
    expected = "operator 'lazy' hands on a value of builtins.generator that cannot be copied"
    with harness, pytest.raises(ValueCopyError, match=expected) as caught:
        harness.process_element("in", "ab")
    assert "enable_object_reuse()" in str(caught.value)


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.skipif(runtime() == "pure", reason="is what this test starts")
def test_the_pure_runtime_does_the_same():
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__],
        env=os.environ | {"PENSTOCK_RUNTIME": "pure"},
        cwd=Path(__file__).parents[3],
        check=True,
        timeout=240,
    )
