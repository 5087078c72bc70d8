"""A task can build every kind of operator that a graph can describe."""

import inspect

import pytest
from penstock.errors import PenstockError
from penstock.graph import operators
from penstock.taskexecutor.operators import registry
from penstock.testing import OneInputStreamOperatorTestHarness

_BASES = {
    operators.OperatorDescriptor,
    operators.FunctionDescriptor,
    operators.SourceDescriptor,
}


def described():
    exported = (getattr(operators, name) for name in operators.__all__)
    classes = {one for one in exported if isinstance(one, type)}
    # A pattern's automaton is exported, too, but describes no operator by itself.
    return {one for one in classes if issubclass(one, operators.OperatorDescriptor)} - _BASES


def test_every_kind_is_registered():
    assert set(registry.FACTORIES) == described()


@pytest.mark.parametrize("kind", registry.FACTORIES, ids=lambda kind: kind.__name__)
def test_a_factory_takes_the_descriptor_that_it_is_registered_for(kind):
    """The registry names factories as text, so mypy does not check this."""
    factory = registry.factory_of(kind)
    _, descriptor = inspect.signature(factory).parameters.values()
    assert isinstance(descriptor.annotation, str)
    assert issubclass(kind, eval(descriptor.annotation, {"operators": operators}))


def test_an_unknown_kind_is_named():
    class Other(operators.OperatorDescriptor):
        pass

    with pytest.raises(PenstockError, match="unknown kind Other"):
        OneInputStreamOperatorTestHarness(Other())
