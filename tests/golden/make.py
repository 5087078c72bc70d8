"""Write the savepoints and wire bytes that are stored for a release.

    PYTHONPATH=tests python -m golden.make 1.0

The bytes of a release are written once: for a folder that exists, only programs and samples without
stored bytes are added.  Add some only before the release; the tests read the folders of all
releases.
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path

from penstock.errors import JobCancelledError
from recovery.savepoint_programs import asked

from golden.programs import HALTED, PROGRAMS, results_from, run
from golden.wire_bytes import SAMPLES

FOLDER = Path(__file__).parent


def write_savepoint(name, folder):
    with run(name, {}, halts=True) as results:
        client = results.get_job_client()
        path = asked(client.stop_with_savepoint, False, str(folder))
        list(results)
    return Path(path)


def write_checkpoint(name, folder):
    """Return the retained checkpoint of a cancelled job; small files are in its metadata."""
    options = {
        "execution.checkpointing.interval": "1 h",
        "execution.checkpointing.dir": str(folder),
        "execution.checkpointing.data-inline-threshold": "1 mb",
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
    }
    HALTED.clear()
    with run(name, options, halts=True) as results:
        client = results.get_job_client()
        HALTED.wait()
        asked(lambda: client.handle.take_checkpoint(full=False))
        client.cancel().result()
        try:
            list(results)
        except JobCancelledError:
            [metadata] = folder.glob("*/chk-*/_metadata")
            return metadata.parent
    raise RuntimeError(f"{name}: the job ended before it was cancelled")


def stored(path):
    return json.loads(path.read_text()) if path.exists() else {}


def main(release):
    target = FOLDER / release
    target.mkdir(exist_ok=True)
    results = stored(target / "results.json")
    for name, program in PROGRAMS.items():
        if name in results:
            continue
        with tempfile.TemporaryDirectory() as folder:
            write = write_checkpoint if program.retained else write_savepoint
            shutil.copytree(write(name, Path(folder)), target / name)
            results[name] = results_from(name, target / name, folder)
    (target / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    wire = {name: sample.encode().hex() for name, sample in SAMPLES.items()}
    wire |= stored(target / "wire.json")
    (target / "wire.json").write_text(json.dumps(wire, indent=1) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
