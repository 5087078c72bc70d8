"""Folders of a process that was killed do not stay."""

import os
import subprocess
import sys
from pathlib import Path

from penstock.taskexecutor.worker.local_directories import LocalDirectory


def test_a_killed_process_leaves_nothing_for_long(tmp_path):
    """Its folder is removed when the next one is made; those of the living and of others stay."""
    (tmp_path / "theirs-x").mkdir()
    program = (
        "import os, signal; "
        "from penstock.taskexecutor.worker.local_directories import LocalDirectory; "
        f"LocalDirectory({str(tmp_path)!r}, 'mine-'); os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", program], check=False)
    [abandoned] = [path for path in tmp_path.glob("mine-*") if path.is_dir()]
    living = LocalDirectory(str(tmp_path), "mine-")
    another = LocalDirectory(str(tmp_path), "mine-")
    assert not abandoned.exists()
    assert Path(living.path).is_dir()
    assert len(os.listdir(tmp_path)) == 5
    living.close()
    another.close()
    assert os.listdir(tmp_path) == ["theirs-x"]
