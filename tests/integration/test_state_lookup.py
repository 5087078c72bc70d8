"""The keyed state of a key, looked up while the job runs, and in a savepoint."""

import json
import urllib.parse

import pytest
from penstock.common import Time, Types
from penstock.datastream import KeyedProcessFunction
from penstock.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from support.commands import penstock
from support.rest_client import Client, UntilMarked, environment


@pytest.fixture(autouse=True)
def run_directory(own_process, tmp_path, monkeypatch):
    monkeypatch.setenv("PENSTOCK_RUN_DIR", str(tmp_path / "run"))


class Remembers(KeyedProcessFunction):
    def open(self, runtime_context):
        ttl = StateTtlConfig.new_builder(Time.hours(1)).build()
        own = ValueStateDescriptor("own key", Types.STRING())
        mortal = ListStateDescriptor("mortal", Types.LONG())
        mortal.enable_time_to_live(ttl)
        self.own = runtime_context.get_state(own)
        self.mortal = runtime_context.get_list_state(mortal)
        self.pairs = runtime_context.get_map_state(
            MapStateDescriptor("pairs", Types.STRING(), Types.LONG())
        )

    def process_element(self, value, ctx):
        key = ctx.get_current_key()
        if self.own.value() is None:
            self.own.update(f"key {key!r}")
            self.mortal.update([1, 2])
            self.pairs.put("ten", 10)
        yield value


def running(tmp_path, key, key_type, **options):
    env = environment(**{"parallelism.default": "2", **options})
    numbers = env.add_source(UntilMarked(tmp_path / "stop"), "Numbers", Types.LONG())
    keyed = numbers.key_by(key, key_type)
    keyed.process(Remembers(), Types.LONG()).name("Remembers").uid("memory").print()
    job = env.execute_async("remembering")
    return job, Client.of_last_cluster(), str(job.get_job_id())


def ask(client, job_id, operator, state="", key="", status=200):
    query = urllib.parse.urlencode({"operator": operator, "state": state, "key": key})
    found = client.ask(f"/jobs/{job_id}/state?{query}")
    assert found[0] == status, found
    return found[1]


def values(client, job_id, state, key):
    query = urllib.parse.urlencode({"operator": "memory", "state": state, "key": key})
    found = client.until(f"/jobs/{job_id}/state?{query}", lambda answer: answer["values"])
    return [one["text"] for one in found["values"]]


@pytest.mark.parametrize(
    ("runtime", "options"),
    [
        ("native", {"execution.target": "local"}),
        ("native", {"execution.target": "in-process", "state.backend.type": "rocksdb"}),
        ("pure", {"execution.target": "local"}),
    ],
)
def test_a_key_is_looked_up_while_the_job_runs(tmp_path, monkeypatch, runtime, options):
    monkeypatch.setenv("PENSTOCK_RUNTIME", runtime)
    job, client, job_id = running(tmp_path, lambda n: n % 5, Types.LONG(), **options)
    client.until(
        f"/jobs/{job_id}",
        lambda found: all(v["tasks"]["RUNNING"] == v["parallelism"] for v in found["vertices"]),
    )
    for key in range(5):
        assert values(client, job_id, "own key", str(key)) == [f"'key {key}'"]
    assert values(client, job_id, "mortal", "3") == ["[1, 2]"]
    assert values(client, job_id, "pairs", "3") == ["{'ten': 10}"]
    names = {"own key": "value", "mortal": "list", "pairs": "map"}
    states = ask(client, job_id, "Remembers")["states"]
    assert {one["name"]: one["kind"] for one in states} == names
    assert ask(client, job_id, "memory", "own key", "77")["values"] == []
    assert ask(client, job_id, "memory", "own key", "no number")["values"] == []
    assert "'own key'" not in str(ask(client, job_id, "memory", "nonsense", "1", status=404))
    assert "has no operator" in str(ask(client, job_id, "nobody", status=404))
    assert penstock("state", job_id, "memory", "own key", "2") == "2: 'key 2'\n"
    listed = penstock("state", job_id, "memory")
    assert listed == "mortal (list)\nown key (value)\npairs (map)\n"
    penstock("state", job_id, "memory", "own key", "77", code=1)
    (tmp_path / "stop").touch()
    job.get_job_execution_result().result()


def test_texts_and_what_they_look_like_are_keys_of_a_savepoint_too(tmp_path):
    """Values are hidden where records are; a savepoint is read without a cluster."""
    job, client, job_id = running(
        tmp_path,
        lambda n: (n % 2, "7") if n % 3 else "7",
        None,
        **{"penstock.rest.record-samples": "TYPES", "execution.target": "in-process"},
    )
    client.until(
        f"/jobs/{job_id}", lambda found: all(v["status"] == "RUNNING" for v in found["vertices"])
    )
    assert values(client, job_id, "own key", "7") == ["str of 7"]
    assert values(client, job_id, "own key", "(1, '7')") == ["str of 12"]
    path = job.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()
    job.get_job_execution_result().result()
    for key, text in (("7", "\"key '7'\""), ("(1, '7')", "\"key (1, '7')\"")):
        found = json.loads(penstock("state", "-s", path, "--json", "memory", "own key", key))
        assert [one["text"] for one in found["values"]] == [text]
    assert "memory" in penstock("state", "-s", path, "nobody", code=1)


def test_nothing_is_shown_where_records_are_not(tmp_path):
    job, client, job_id = running(
        tmp_path, lambda n: n, Types.LONG(), **{"penstock.rest.record-samples": "OFF"}
    )
    ask(client, job_id, "memory", "own key", "1", status=403)
    (tmp_path / "stop").touch()
    job.get_job_execution_result().result()
