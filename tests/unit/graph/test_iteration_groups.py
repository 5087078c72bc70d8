"""Iterations that feed each other terminate together."""

from types import SimpleNamespace

from penstock.graph.iteration_groups import Iteration, iteration_groups


def graph(*edges):
    """Create nodes with edges, written as pairs of their ids."""
    ids = {node for edge in edges for node in edge}
    return SimpleNamespace(
        nodes={
            node: SimpleNamespace(
                out_edges=[SimpleNamespace(target_id=b) for a, b in edges if a == node]
            )
            for node in ids
        }
    )


A, B, C = Iteration(1, 11), Iteration(2, 12), Iteration(3, 13)


def test_iterations_that_follow_each_other_are_groups_of_their_own():
    chain = graph((1, 101), (101, 11), (101, 102), (2, 102), (102, 12))
    assert iteration_groups(chain, [A, B]) == [[0], [1]]


def test_loops_within_a_loop_are_one_group():
    """Even if one inner loop leads to the other only by the feedback of the outer loop."""
    nested = graph((1, 102), (2, 102), (102, 12), (102, 103), (3, 103), (103, 13), (103, 11))
    assert iteration_groups(nested, [A, B, C]) == [[0, 1, 2]]
