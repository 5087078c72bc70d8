"""What cannot be made is refused alike by both runtimes, and nothing is held by the attempt."""

import pytest
from penstock.errors import ConfigurationError, IllegalStateError, InsufficientBuffersError

from contract.plane import assert_all_returned, partition_id


@pytest.fixture
def environment(plane):
    environment = plane.environment(num_segments=16)
    yield environment
    assert_all_returned(environment)


@pytest.mark.parametrize("size", [0, 59, 61])
def test_partition_ids_have_60_bytes(environment, size):
    """C3: an id that does not fit its field is refused where it is given."""
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
    union = environment.create_union_gate([gate])
    with pytest.raises(IllegalStateError, match="already"):
        environment.create_union_gate([gate])
    with pytest.raises(IllegalStateError, match="union of unions"):
        environment.create_union_gate([union])
    with pytest.raises(IllegalStateError):
        gate.resume_consumption(0)
    with pytest.raises(IllegalStateError, match="channel 1"):
        gate.resume_consumption(1)
    union.close()


def test_too_few_buffers(environment):
    """A4: what cannot be promised names what is there, and takes nothing."""
    with pytest.raises(InsufficientBuffersError, match="Insufficient number of network buffers"):
        environment.create_result_partition(partition_id(), 16)
    channels = [(partition_id(), index, environment.address) for index in range(16)]
    with pytest.raises(InsufficientBuffersError, match="Insufficient number of network buffers"):
        environment.create_input_gate(channels)


def test_closed_environment(plane):
    """C6: a closed environment makes nothing; closing it again does nothing."""
    environment = plane.environment()
    environment.close()
    environment.close()
    with pytest.raises(IllegalStateError, match="closed"):
        environment.create_result_partition(partition_id(), 1)
    with pytest.raises(IllegalStateError, match="closed"):
        environment.create_input_gate([(partition_id(), 0, None)])


@pytest.mark.parametrize(
    "settings",
    [{"floating_buffers_per_gate": 0}, {"compression_codec": "zip"}],
)
def test_settings(plane, settings):
    """A5: settings that cannot work are refused."""
    with pytest.raises(ConfigurationError):
        plane.environment(**settings)
