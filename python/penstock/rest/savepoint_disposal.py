"""Deletes savepoints on request, as no job owns them; checkpoints belong to their jobs."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING

from penstock.checkpoint_storage.disposal import discard_checkpoint_state
from penstock.checkpoint_storage.file_systems import FileSystems, absolute
from penstock.checkpoint_storage.storage import discard_location, load_metadata
from penstock.errors import CheckpointError
from penstock.rest.call import RestError
from penstock.rest.operations import operation_status, trigger_id_of

if TYPE_CHECKING:
    from penstock.rest.call import Call, Json

_KIND = "savepoint disposal"
_NO_JOB = b""


def dispose(call: Call) -> Json:
    """Delete the savepoint at ``savepoint-path``: its files and then its directory.

    The answer has a ``request-id``, under which ``/savepoint-disposal/:triggerid`` reports the
    outcome.  Checkpoints, and savepoints from which a running job has started, are not deleted.
    """
    path = call.field("savepoint-path", str)
    if not path:
        raise RestError(400, "the body names the savepoint: {'savepoint-path': …}")
    trigger_id = trigger_id_of(call)
    if not call.operations.knows(trigger_id):
        outcome: Future[None] = Future()
        files = FileSystems(call.gateway.configuration)
        in_use = {
            job.checkpoints.restored.external_path
            for job in call.cluster.jobs
            if job.checkpoints.restored is not None and job.end_ms < 0
        }

        def run() -> None:
            try:
                _dispose(absolute(path), files, in_use)
            except BaseException as error:
                outcome.set_exception(error)
            else:
                outcome.set_result(None)

        call.operations.trigger(_KIND, _NO_JOB, outcome, trigger_id)
        threading.Thread(target=run, name="savepoint disposal", daemon=True).start()
    return {"request-id": trigger_id}


def disposal_status(call: Call) -> Json:
    """Return whether the deletion of a savepoint is in progress, completed or failed."""
    return operation_status(call, _KIND, _NO_JOB, None)


def _dispose(path: str, files: FileSystems, in_use: set[str]) -> None:
    metadata, location = load_metadata(path, files)
    if not metadata.properties.get("kind", "").startswith("SAVEPOINT"):
        raise CheckpointError(f"{location} is a checkpoint, which its job deletes")
    if location in in_use:
        raise CheckpointError(f"{location} may still be needed by a running job")
    discard_checkpoint_state(metadata, files)
    discard_location(location, files)
