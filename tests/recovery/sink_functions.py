"""Sink functions that commit with checkpoints, over folders that stand for outside systems."""

import os
import uuid
from pathlib import Path

from penstock.datastream.functions import (
    CheckpointCommitter,
    GenericWriteAheadSink,
    TwoPhaseCommitSinkFunction,
)

from recovery.sink_programs import lines


class FileTransactions(TwoPhaseCommitSinkFunction):
    """Transactions as files, which are renamed on commit."""

    def __init__(self, folder, fate):
        self.folder = str(folder)
        self.fate = fate

    def begin_transaction(self):
        return uuid.uuid4().hex

    def invoke(self, transaction, value, context):
        with Path(self.folder, f"{transaction}.pending").open("a") as file:
            file.write(f"{value}\n")

    def pre_commit(self, transaction):
        self.fate.strike("prepare commit")

    def commit(self, transaction):
        self.fate.strike("before commit")
        pending = Path(self.folder, f"{transaction}.pending")
        if pending.exists():
            pending.rename(pending.with_suffix(".committed"))
        self.fate.strike("after commit")

    def recover_and_commit(self, transaction):
        self.fate.strike("restore committer")
        self.commit(transaction)

    def abort(self, transaction):
        Path(self.folder, f"{transaction}.pending").unlink(missing_ok=True)


class Marks(CheckpointCommitter):
    """Creates a file for each checkpoint that was sent."""

    def __init__(self, folder, fate):
        self.folder = str(folder)
        self.fate = fate

    def open(self):
        self.fate.strike("restore committer")

    def close(self):
        pass

    def commit_checkpoint(self, subtask_idx, checkpoint_id):
        self.fate.strike("before commit")
        Path(self.folder, f"{subtask_idx}-{checkpoint_id}.mark").touch()
        self.fate.strike("after commit")

    def is_checkpoint_committed(self, subtask_idx, checkpoint_id):
        return Path(self.folder, f"{subtask_idx}-{checkpoint_id}.mark").exists()


class FileWriteAhead(GenericWriteAheadSink):
    """Sends a checkpoint as a file with a fixed name, so that repetition has no effect."""

    def __init__(self, folder, fate):
        super().__init__(Marks(folder, fate), "job")
        self.folder = str(folder)
        self.fate = fate

    def open(self, runtime_context):
        self.subtask = runtime_context.get_index_of_this_subtask()
        super().open(runtime_context)

    def send_values(self, values, checkpoint_id, timestamp):
        self.fate.strike("prepare commit")
        name = f"{self.subtask}-{checkpoint_id}"
        beside = Path(self.folder, f"{name}.{os.getpid()}.pending")
        beside.write_text("".join(f"{value}\n" for value in values))
        beside.rename(Path(self.folder, f"{name}.committed"))
        return True


def write_by_function(sink_class, out, elements, fate):
    """Run the job with this kind of sink function."""
    env, stream = lines(elements, fate, {})
    stream.add_sink(sink_class(out, fate))
    env.execute()
