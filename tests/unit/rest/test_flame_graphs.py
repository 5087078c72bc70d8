"""Stacks become one tree (M72): a node's value counts the samples at it or below it."""

from penstock.rest.flame_graphs import merged
from penstock.rpc.inspection_messages import StackCount


def test_common_frames_share_a_node():
    stacks = [
        StackCount(("run", "read"), False, 3),
        StackCount(("run", "work", "add"), True, 5),
        StackCount(("run", "work"), True, 1),
        StackCount(("other",), True, 2),
    ]
    root = merged(stacks)
    assert (root["name"], root["value"]) == ("root", 11)
    run, other = root["children"]
    assert (run["name"], run["value"], other["value"]) == ("run", 9, 2)
    work, read = run["children"]
    assert (work["name"], work["value"], read["value"]) == ("work", 6, 3)
    assert work["children"] == [{"name": "add", "value": 5, "children": []}]
    assert merged([]) == {"name": "root", "value": 0, "children": []}
