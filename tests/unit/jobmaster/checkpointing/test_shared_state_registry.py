"""F10: files that several checkpoints share are deleted with the last of these (F-15, F-16)."""

from penstock.checkpoint_storage.checkpoint_metadata import CheckpointMetadata, OperatorState
from penstock.checkpoint_storage.handles import (
    ByteStreamHandle,
    FileHandle,
    IncrementalKeyGroupsHandle,
    OperatorSubtaskState,
    TaskStateSnapshot,
)
from penstock.jobmaster.checkpointing.shared_state_registry import SharedStateRegistry

OPERATOR = b"o" * 16
META = ByteStreamHandle("meta", b"x")


def state(checkpoint_id, *files):
    shared = {str(of): FileHandle(f"/shared/{of}", 1, (1,)) for of in files}
    handle = IncrementalKeyGroupsHandle(checkpoint_id, "", 0, 1, 0, META, shared, {})
    return OperatorSubtaskState(managed_keyed=(handle,))


def report(checkpoint_id, *files):
    return checkpoint_id, TaskStateSnapshot({OPERATOR: state(checkpoint_id, *files)})


def paths(files):
    return sorted(file.path for file in files)


def test_a_file_goes_with_its_last_user():
    registry = SharedStateRegistry()
    assert registry.report(*report(1, 1)) is None
    assert registry.report(*report(2, 1, 2)) is None
    assert registry.unregister(1) == ()
    assert registry.report(*report(3, 2, 3)) is None
    assert paths(registry.unregister(2)) == ["/shared/1"]
    assert paths(registry.unregister(3)) == ["/shared/2", "/shared/3"]
    assert registry.unregister(3) == ()


def test_one_that_is_given_up_takes_only_its_own():
    """F-16: aborting a checkpoint never deletes files of an earlier one."""
    registry = SharedStateRegistry()
    registry.report(*report(1, 1))
    registry.report(*report(2, 1, 2))
    assert paths(registry.unregister(2)) == ["/shared/2"]
    assert registry.report(*report(3, 1, 3)) is None


def test_a_report_that_refers_to_what_is_gone_is_refused():
    """Its task did not know yet that a later checkpoint is complete."""
    registry = SharedStateRegistry()
    registry.report(*report(1, 1))
    registry.report(*report(2, 2))
    registry.unregister(1)
    gone = registry.report(*report(3, 1, 3))
    assert gone is not None
    assert gone.path == "/shared/1"
    assert registry.unregister(3) == (), "nothing of it is registered"


def test_files_of_the_initial_checkpoint_are_registered():
    registry = SharedStateRegistry()
    operator = OperatorState(OPERATOR, 1, 128, subtasks={0: state(7, 6, 7)})
    registry.register(CheckpointMetadata(7, 0, {OPERATOR: operator}))
    assert registry.report(*report(8, 6, 8)) is None
    assert paths(registry.unregister(7)) == ["/shared/7"]
