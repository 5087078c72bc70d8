"""Both runtimes reject invalid arguments alike, and a failed attempt holds no resources."""

import pytest
from penstock.errors import (
    CancelTaskError,
    ConfigurationError,
    IllegalStateError,
    InsufficientBuffersError,
    PartitionConnectionError,
)

from contract.plane import assert_all_returned, partition_id


@pytest.fixture
def environment(plane):
    environment = plane.environment(num_segments=16)
    yield environment
    assert_all_returned(environment)


@pytest.mark.parametrize("size", [0, 59, 61])
def test_partition_ids_have_60_bytes(environment, size):
    """C3: an id that does not fit its field is rejected in the call that receives it."""
    with pytest.raises(ConfigurationError, match="60"):
        environment.create_result_partition(bytes(size), 1)
    with pytest.raises(ConfigurationError, match="60"):
        environment.create_input_gate([(bytes(size), 0, None)])


def test_partitions(environment):
    """C1: a partition has subpartitions, a known type and an id of its own."""
    with pytest.raises(IllegalStateError, match="subpartitions"):
        environment.create_result_partition(partition_id(), 0)
    with pytest.raises(ConfigurationError, match="HYBRID_FULL"):
        environment.create_result_partition(partition_id(), 1, "HYBRID_FULL")
    with pytest.raises(IllegalStateError, match="subpartitions"):
        environment.create_result_partition(partition_id(), -1)
    with pytest.raises(ConfigurationError, match="-2 ms"):
        environment.create_result_partition(partition_id(), 1, flush_timeout_ms=-2)
    partition = environment.create_result_partition(partition_id(), 1)
    with pytest.raises(IllegalStateError, match="registered already"):
        environment.create_result_partition(partition_id(), 1)
    partition.release()


def test_gates(environment):
    """C9: a gate has channels, a union has gates, and a gate is in one union at most."""
    with pytest.raises(IllegalStateError, match="without channels"):
        environment.create_input_gate([])
    with pytest.raises(IllegalStateError, match="no gates"):
        environment.create_union_gate([])
    gate = environment.create_input_gate([(partition_id(), 0, None)])
    with pytest.raises(IllegalStateError, match="already"):
        environment.create_union_gate([gate, gate])
    union = environment.create_union_gate([gate])
    other = environment.create_input_gate([(partition_id(), 0, None)])
    with pytest.raises(IllegalStateError, match="already"):
        environment.create_union_gate([other, gate])
    environment.create_union_gate([other]).close()
    with pytest.raises(IllegalStateError, match="already"):
        environment.create_union_gate([gate])
    with pytest.raises(IllegalStateError, match="union of unions"):
        environment.create_union_gate([union])
    with pytest.raises(IllegalStateError):
        gate.resume_consumption(0)
    for act in (gate.resume_consumption, gate.take_persisted, gate.unconsumed):
        for channel in (1, -1):
            with pytest.raises(IllegalStateError, match=f"channel {channel} of"):
                act(channel)
    union.close()


def test_subpartitions(environment):
    """C9: a channel reads an existing subpartition, in this executor or another."""
    for address in (None, environment.address):
        with pytest.raises(ConfigurationError, match=r"^subpartition is -1; it can be 0 to"):
            environment.create_input_gate([(partition_id(), -1, address)])


@pytest.mark.parametrize("is_union", [False, True])
@pytest.mark.parametrize("is_local", [False, True])
def test_resuming_a_closed_gate(environment, is_local, is_union):
    """C10: a closed gate resumes nothing, and reports that it was closed."""
    address = None if is_local else environment.address
    gate = environment.create_input_gate([(partition_id(), 0, address)])
    if is_union:
        gate = environment.create_union_gate([gate])
    gate.close()
    with pytest.raises(CancelTaskError, match="closed"):
        gate.resume_consumption(0)


def test_too_few_buffers(environment):
    """A4: the error names the available buffers, and none are taken."""
    with pytest.raises(InsufficientBuffersError, match="Insufficient number of network buffers"):
        environment.create_result_partition(partition_id(), 16)
    channels = [(partition_id(), index, environment.address) for index in range(16)]
    with pytest.raises(InsufficientBuffersError, match="Insufficient number of network buffers"):
        environment.create_input_gate(channels)


def test_closed_environment(plane):
    """C6: a closed environment creates nothing; closing it again has no effect."""
    environment = plane.environment()
    environment.close()
    environment.close()
    with pytest.raises(IllegalStateError, match="closed"):
        environment.create_result_partition(partition_id(), 1)
    with pytest.raises(IllegalStateError, match="closed"):
        environment.create_input_gate([(partition_id(), 0, None)])


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("num_segments", 1),
        ("segment_size", 1),
        ("exclusive_buffers_per_channel", 0),
        ("floating_buffers_per_gate", 1),
        ("request_timeout_ms", 1),
        ("partition_request_timeout_ms", 0),
        ("connect_timeout_ms", 0),
        ("handshake_timeout_ms", 0),
        ("debloat_target_ms", 0),
        ("debloat_threshold_percent", 0),
        ("debloat_samples", 1),
        ("min_segment_size", 1),
        ("starting_segment_size", 0),
        ("spill_threshold_bytes", 0),
    ],
)
def test_numbers(plane, name, least):
    """A4, A5: a number out of range is rejected by name, at either end of the range."""
    for value in (least - 1, -(2**40), 2**31):
        message = f"^{name} is {value}; it can be {least} to 2147483647$"
        with pytest.raises(ConfigurationError, match=message):
            plane.environment(**{name: value})


def test_settings(plane):
    """A5, C6: settings that cannot work are rejected."""
    with pytest.raises(ConfigurationError, match=r"codec .zip.;"):
        plane.environment(compression_codec="zip")
    with pytest.raises(ConfigurationError, match="debloated buffers of at least 2048 bytes"):
        plane.environment(debloat_target_ms=1, min_segment_size=2048)
    with pytest.raises(ConfigurationError, match=r"^token is empty"):
        plane.environment(token=b"")


def test_events_and_ends(environment):
    """C2: a partition accepts only events, of valid sizes, and finishes once."""
    partition = environment.create_result_partition(partition_id(), 2)
    for event, data_type in ((b"event", 1), (b"event", 99), (b"event", -1), (b"", 2), (b"e", 10)):
        with pytest.raises(IllegalStateError):
            partition.broadcast_event(event, data_type)
    with pytest.raises(IllegalStateError):
        partition.overtake(b"event", 2)
    assert partition.buffers_queued == 0
    partition.finish()
    with pytest.raises(IllegalStateError, match="finished"):
        partition.finish()
    with pytest.raises(IllegalStateError, match="finished"):
        partition.broadcast_event(b"event", 2)
    partition.release()
    partition = environment.create_result_partition(partition_id(), 2)
    partition.fail("over")
    for act in (partition.finish, lambda: partition.broadcast_event(b"event", 2)):
        with pytest.raises(CancelTaskError):
            act()
    partition.release()


def test_unknown_host(environment):
    """C6: a name that cannot be resolved is an error of the connection, which holds nothing."""
    with pytest.raises(PartitionConnectionError, match=r"no\.such\.host\.invalid"):
        environment.create_input_gate([(partition_id(), 0, ("no.such.host.invalid", 7))])
