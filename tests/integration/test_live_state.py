"""Keyed state of a running job is read by key, by many keys, and as a filtered scan."""

import base64
import json
import urllib.parse

import pyarrow as pa
import pytest
from penstock.common import Row, Types
from penstock.datastream import KeyedProcessFunction
from penstock.datastream.connectors.discard import DiscardingSink
from penstock.datastream.state import MapStateDescriptor, ValueStateDescriptor
from penstock.errors import InvalidProgramError, StateReadError
from support.commands import penstock
from support.rest_client import Client, UntilMarked, environment
from support.sessions import eventually

KEYS = 40
ORDER = Types.ROW_NAMED(["price", "item"], [Types.LONG(), Types.STRING()])


@pytest.fixture(autouse=True)
def run_directory(own_process, tmp_path, monkeypatch):
    monkeypatch.setenv("PENSTOCK_RUN_DIR", str(tmp_path / "run"))


class Orders(KeyedProcessFunction):
    """Stores an order for each key."""

    def open(self, runtime_context):
        self.order = runtime_context.get_state(ValueStateDescriptor("order", ORDER))
        self.pairs = runtime_context.get_map_state(
            MapStateDescriptor("pairs", Types.STRING(), Types.LONG())
        )

    def process_element(self, value, ctx):
        key = ctx.get_current_key()
        if self.order.value() is None:
            self.order.update(Row(price=key * 10, item=f"item{key}"))
            self.pairs.put("ten", key)
        yield value


def started(tmp_path, **options):
    env = environment(
        **{
            "parallelism.default": "2",
            "execution.checkpointing.interval": "100 ms",
            # So that no order is removed while it is read.
            "execution.checkpointing.num-retained": "10000",
            "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
            **options,
        }
    )
    numbers = env.add_source(UntilMarked(tmp_path / "stop"), "Numbers", Types.LONG())
    keyed = numbers.key_by(lambda n: n % KEYS, Types.LONG())
    keyed.process(Orders(), Types.LONG()).name("Orders").uid("orders").sink_to(DiscardingSink())
    job = env.execute_async("shop")
    state = job.state("orders", "order")

    def is_full():
        try:
            return len(state.get_many(range(KEYS))) == KEYS
        except StateReadError:  # not all tasks run yet
            return False

    eventually(is_full, "all keys have state")
    return job, state


def rows_of(batches):
    return sorted((row["key"], row["value"]["price"]) for b in batches for row in b.to_pylist())


@pytest.mark.parametrize(
    "options",
    [
        {"execution.target": "local"},
        {"execution.target": "in-process", "state.backend.type": "rocksdb"},
    ],
)
def test_a_program_reads_the_state_of_its_job(tmp_path, options):
    job, state = started(tmp_path, **options)
    assert state.get(3) == Row(price=30, item="item3")
    assert state.get(KEYS, "none") == "none"
    assert state.get("text") is None
    assert state.get_many([1, 2, 1, KEYS]) == {
        1: Row(price=10, item="item1"),
        2: Row(price=20, item="item2"),
    }
    assert job.state("Orders", "pairs").get(7) == {"ten": 7}
    assert state.windows(1) == [(None, Row(price=10, item="item1"))]

    everything = [(key, key * 10) for key in range(KEYS)]
    batches = list(state.scan(batch_rows=7))
    assert all(isinstance(batch, pa.RecordBatch) and batch.num_rows <= 7 for batch in batches)
    assert rows_of(batches) == everything
    for filters, expected in (
        ([("value.price", ">=", 350)], everything[35:]),
        ([("value.price", "<", 100), ("key", "!=", 3)], everything[:3] + everything[4:10]),
        ([("key", "in", [5, 6, 600])], everything[5:7]),
        ([("value.item", "==", "item4")], everything[4:5]),
        ([("value.item", ">", 4)], []),
    ):
        assert rows_of(state.scan(filters)) == expected
    eventually(lambda: checkpointed(state), "a checkpoint has the state")
    for consistency in ("live", "checkpoint"):
        misspelt = state.scan([("value.prise", ">", 0)], consistency=consistency)
        with pytest.raises(InvalidProgramError, match=r"no entry has 'value\.pri.*mean 'price'"):
            list(misspelt)
    assert rows_of(state.scan([("key", "<", 3)], consistency="checkpoint")) == everything[:3]

    with pytest.raises(StateReadError, match=r"'ordr', but: order, pairs; did you mean 'order'"):
        job.state("orders", "ordr").get(1)
    with pytest.raises(StateReadError, match=r"operator 'order', but: .*; did you mean 'orders'"):
        list(job.state("order", "order").scan())
    with pytest.raises(StateReadError, match="did you mean 'Orders'"):
        job.state("Ordes", "order").get(1)
    with pytest.raises(InvalidProgramError, match="key, namespace or value"):
        state.scan([("price", ">", 1)])
    with pytest.raises(InvalidProgramError, match="must be live or checkpoint"):
        state.scan(consistency="eventual")
    (tmp_path / "stop").touch()
    job.get_job_execution_result().result()
    with pytest.raises(StateReadError):
        state.get(1)


def checkpointed(state):
    try:
        return len(rows_of(state.scan(consistency="checkpoint"))) == KEYS
    except (StateReadError, OSError, InvalidProgramError):  # none yet, or a replaced one
        return False


def test_another_process_reads_it_by_rest(tmp_path):
    job, _ = started(tmp_path, **{"execution.target": "in-process"})
    client, job_id = Client.of_last_cluster(), str(job.get_job_id())

    def ask(path, status=200, **query):
        text = urllib.parse.urlencode({"operator": "orders", "state": "order", **query}, True)
        found = client.ask(f"/jobs/{job_id}/state{path}?{text}")
        assert found[0] == status, found
        return found[1]

    many = ask("", key=["1", "2"])
    assert many["consistency"] == "live"
    assert sorted(one["key"] for one in many["values"]) == ["1", "2"]

    keys, cursor = [], ""
    while cursor is not None:
        page = ask("/scan", where=["value.price > 200", "key != 30"], limit="3", cursor=cursor)
        assert page["consistency"] == "live"
        if page["rows"]:
            batches = pa.ipc.open_stream(base64.b64decode(page["arrow"]))
            keys += [key for batch in batches for key in batch.column("key").to_pylist()]
        assert page["rows"] <= 3
        cursor = page["cursor"]
    assert sorted(keys) == [key for key in range(21, KEYS) if key != 30]
    for status, query in (
        (400, {"where": "value.price ~ 3"}),
        (400, {"where": "key in 3"}),
        (404, {"cursor": "7:0"}),
        (404, {"state": "ordr"}),
    ):
        ask("/scan", status, **query)

    scan = ("state", job_id, "orders", "order", "--where", "key < 2", "--json")
    shown = [json.loads(line) for line in penstock(*scan).splitlines() if line.startswith("{")]
    assert sorted(shown, key=lambda row: row["key"]) == [
        {"key": 0, "namespace": None, "value": {"price": 0, "item": "item0"}},
        {"key": 1, "namespace": None, "value": {"price": 10, "item": "item1"}},
    ]
    assert "did you mean 'price'?" in ask("/scan", where="value.prise > 3")["fields"]["value.prise"]
    misspelt = penstock(*scan[:5], "value.prise < 2", code=1)
    assert "did you mean 'price'?" in misspelt
    some = penstock("state", job_id, "orders", "order", "--limit", "2").splitlines()
    assert all("item" in entry for entry in some[:2])
    assert some[2:] == ["The first 2 entries, live; set --limit."]
    assert "ordr" in penstock("state", job_id, "orders", "ordr", code=1)
    both = penstock("state", job_id, "orders", "order", "5", "--key", "6")
    assert sorted(both.splitlines()) == [
        f"{key}: Row(price={key}0, item='item{key}')" for key in (5, 6)
    ]
    path = job.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()
    job.get_job_execution_result().result()
    found = penstock("state", "-s", path, "orders", "order", "--where", "key == 7")
    assert "'item7'" in found
