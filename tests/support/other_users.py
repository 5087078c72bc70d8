"""Access of other users to a folder, tried if possible.

If root runs the test, a process becomes the user nobody and tries to read, write, enter and
connect. Any other user checks the modes.
"""

import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

NOBODY = 65534

#: Run by the interpreter of these tests, which other users may be unable to start: the interpreter
#: imports its modules before it changes the user.
_WALK = f"""
import json, os, socket, stat, sys

def reached(path, left_out):
    found = os.lstat(path)
    if stat.S_ISLNK(found.st_mode):
        return
    if stat.S_ISDIR(found.st_mode):
        # To be entered is no harm, as /tmp is; to be changed is, unless others' files are safe.
        if os.access(path, os.W_OK, effective_ids=True) and not found.st_mode & stat.S_ISVTX:
            yield "changed", path
        try:
            names = os.listdir(path)
        except PermissionError:
            return
        for name in names:
            if name not in left_out:
                try:
                    yield from reached(f"{{path}}/{{name}}", ())
                except (FileNotFoundError, PermissionError):
                    pass
        return
    if stat.S_ISSOCK(found.st_mode):
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(10)
            try:
                client.connect(path)
            except OSError:
                return
        yield "connected to", path
        return
    for what, flags in (("read", os.O_RDONLY), ("written", os.O_WRONLY)):
        try:
            os.close(os.open(path, flags | os.O_NONBLOCK))
        except OSError:
            continue
        yield what, path

roots, left_out = json.loads(sys.argv[1])
json.dumps(roots)  # what it imports late is there
os.setgroups([])
os.setresgid({NOBODY}, {NOBODY}, {NOBODY})
os.setresuid({NOBODY}, {NOBODY}, {NOBODY})
print(json.dumps([found for root in roots for found in reached(root, left_out)]))
"""


@contextmanager
def shared_machine() -> Iterator[Path]:
    """Yield a folder that other users can enter, unlike pytest's, under a machine's usual umask."""
    before = os.umask(0o022)
    folder = Path(tempfile.mkdtemp(prefix="shared-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        os.umask(before)
        shutil.rmtree(folder)


def reached_by_others(*roots: Path, but: Collection[str] = ()) -> list[tuple[str, str]]:
    """Return the files, folders and sockets that another user can reach, and how.

    Args:
        roots: The folders, which other users can enter.
        but: Names in these folders to ignore: the places where the user requested files.
    """
    for root in roots:
        assert root.stat().st_mode & stat.S_IXOTH, f"others cannot enter {root} anyhow"
    if os.getuid() != 0:
        return [found for root in roots for found in _open_by_modes(root, but)]
    roots_and_left_out = json.dumps([[str(root) for root in roots], list(but)])
    done = subprocess.run(
        [sys.executable, "-I", "-c", _WALK, roots_and_left_out],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return [(what, path) for what, path in json.loads(done.stdout)]


def _open_by_modes(root: Path, but: Collection[str]) -> Iterator[tuple[str, str]]:
    for path in root.iterdir():
        if path.name in but:
            continue
        try:
            mode = path.lstat().st_mode
        except FileNotFoundError:
            continue
        if stat.S_ISLNK(mode):
            continue
        if stat.S_ISDIR(mode):
            if mode & (stat.S_IWGRP | stat.S_IWOTH) and not mode & stat.S_ISVTX:
                yield "changed", str(path)
            if mode & (stat.S_IXGRP | stat.S_IXOTH):
                yield from _open_by_modes(path, ())
            continue
        if mode & (stat.S_IRGRP | stat.S_IROTH):
            yield "read", str(path)
        if mode & (stat.S_IWGRP | stat.S_IWOTH):
            yield "written", str(path)
