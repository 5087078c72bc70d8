"""Values that change, on real workers: without object reuse no function sees others' changes."""

import pytest
from penstock.common import Configuration
from penstock.datastream import SourceFunction, StreamExecutionEnvironment


class Growing(SourceFunction):
    """Emits one list, and mutates it afterwards."""

    def run(self, ctx):
        value = ["key"]
        for number in range(3):
            value.append(number)
            ctx.collect(value)

    def cancel(self):
        """Do nothing: the source ends by itself."""


def marked(mark):
    def change(value):
        value.append(mark)
        return value

    return change


def grown(left, right):
    left.append(len(right))
    return left


def fed_back(value):
    """Feed each element back once; the element emitted before is not changed."""
    return [value] if value.count("round") < 2 else []


def results(build, runtime, reuse):
    env = StreamExecutionEnvironment.get_execution_environment(
        Configuration.from_dict({"execution.target": "local"})
    )
    env.set_parallelism(1)
    config = env.get_config()
    assert not config.is_object_reuse_enabled()
    config.enable_object_reuse()
    assert config.is_object_reuse_enabled()
    if not reuse:
        config.disable_object_reuse()
    with build(env).execute_and_collect() as found:
        return sorted(map(str, found))


def branches(env):
    source = env.add_source(Growing())
    return source.map(marked("left")).union(source.map(marked("right")), source)


def folded(env):
    stream = env.from_collection([["a"], ["a", 1], ["a", 2, 3]])
    return stream.key_by(lambda value: value[0]).reduce(grown).map(marked("behind"))


def looped(env):
    loop = env.from_collection([["a"]]).map(lambda value: value).iterate()
    rounds = loop.map(marked("round"))
    loop.close_with(rounds.flat_map(fed_back))
    return rounds.map(marked("out"))


@pytest.mark.parametrize("runtime", ["native", "pure"])
@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (
            branches,
            [
                [*["key", 0, 1, 2][: count + 1], *mark]
                for count in (1, 2, 3)
                for mark in ([], ["left"], ["right"])
            ],
        ),
        (folded, [["a", "behind"], ["a", 2, "behind"], ["a", 2, 3, "behind"]]),
        (looped, [["a", "round", "out"], ["a", "round", "round", "out"]]),
    ],
)
def test_later_changes_reach_nobody_else_without_object_reuse(
    build, expected, runtime, monkeypatch
):
    monkeypatch.setenv("PENSTOCK_RUNTIME", runtime)
    assert results(build, runtime, False) == sorted(map(str, expected))


def test_with_object_reuse_the_branches_share_their_records(monkeypatch):
    monkeypatch.setenv("PENSTOCK_RUNTIME", "native")
    assert results(folded, "native", True) != results(folded, "native", False)
