"""Data in flight in a checkpoint that is restored with another parallelism (F6, F12)."""

import pytest
from penstock.checkpoint_storage.metadata_serializer import deserialize_metadata
from recovery.programs import KEYS
from recovery.rescaling_programs import cancelled, job, last_counts

ELEMENTS = 20_000


@pytest.mark.parametrize(("runtime", "before", "after"), [("native", 2, 3), ("pure", 3, 2)])
def test_each_record_once(tmp_path, monkeypatch, runtime, before, after):
    """F-11: what was in flight by key goes to the new owners, the rest to anybody."""
    monkeypatch.setenv("PENSTOCK_RUNTIME", runtime)
    options = {
        "execution.checkpointing.unaligned.enabled": "true",
        "execution.checkpointing.dir": str(tmp_path),
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "taskmanager.memory.segment-size": "2kb",
    }
    path = cancelled(job(ELEMENTS, options, before, 0.001, 300), tmp_path)
    assert has_in_flight(path), "nothing was in flight"
    options["execution.state-recovery.path"] = path
    last = last_counts(job(ELEMENTS, options, after, 0.0, 300))
    assert last == dict.fromkeys(range(KEYS), ELEMENTS // KEYS)


def has_in_flight(path):
    with open(f"{path}/_metadata", "rb") as file:
        metadata = deserialize_metadata(file.read(), path)
    subtasks = [s for operator in metadata.operators.values() for s in operator.subtasks.values()]
    return any(s.input_channels for s in subtasks) and any(s.result_subpartitions for s in subtasks)
