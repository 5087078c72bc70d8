"""A job that is cancelled while its storage hangs for ever: ``hanging.py METHOD FOLDER``."""

import sys
import threading
from pathlib import Path

from penstock.checkpoint_storage.file_systems import LocalFileSystem
from penstock.errors import JobCancelledError
from penstock.jobmaster.checkpointing import service

from recovery import chaos


def main(method, folder):
    # In the driver what hangs is left behind soon; elsewhere it need not wait, however busy it is.
    service.CLOSE_TIMEOUT_S = 60.0 if method == "create" else 0.2
    stream = chaos.job(
        folder,
        chaos.Count("first"),
        workers=2,
        options={"execution.target": "in-process"},
    )
    hanging = threading.Event()

    def hangs(self, *arguments):
        hanging.set()
        threading.Event().wait()

    with stream.execute_and_collect() as results:
        chaos.Progress(folder).await_checkpoint()
        setattr(LocalFileSystem, method, hangs)
        hanging.wait()
        print("hangs")
        results.get_job_client().cancel().result()
        try:
            list(results)
        except JobCancelledError:
            print("cancelled")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
