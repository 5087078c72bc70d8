"""This release restores the state that each release wrote.

Method: `golden.make` has stopped programs after the first half of their events, and stored their
state and the results of jobs that started from it.
"""

import hashlib
import json

import pytest
from golden import make
from golden.programs import PROGRAMS, results_from

RELEASES = sorted(path.parent for path in make.FOLDER.glob("*/results.json"))
KEPT = [
    (release, name)
    for release in RELEASES
    for name in json.loads((release / "results.json").read_text())
]


@pytest.mark.parametrize(
    ("release", "name"), [pytest.param(*kept, id=f"{kept[0].name}-{kept[1]}") for kept in KEPT]
)
def test_state_of_a_release_is_restored(release, name, tmp_path):
    if "rocksdb" in name:
        pytest.importorskip("rocksdict")
    wanted = json.loads((release / "results.json").read_text())[name]
    assert results_from(name, release / name, tmp_path) == wanted


def test_each_program_has_kept_state_with_results():
    assert {name for _, name in KEPT} == set(PROGRAMS)
    for release, name in KEPT:
        assert (release / name / "_metadata").is_file()
        assert len(json.loads((release / "results.json").read_text())[name]) >= 3


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.name)
def test_the_kept_savepoints_are_small(release):
    assert sum(path.stat().st_size for path in release.rglob("*") if path.is_file()) < 192 << 10


def test_kept_state_is_not_written_anew():
    """A release's files stay as it wrote them: a change that cannot read them needs a reader."""
    digests = {}
    for release in RELEASES:
        digest = hashlib.sha256()
        for path in sorted(path for path in release.rglob("*") if path.is_file()):
            digest.update(path.relative_to(release).as_posix().encode() + path.read_bytes())
        digests[release.name] = digest.hexdigest()
    assert digests == {
        "1.0": "69d8c4a147195d32715ff55e463d6bc5e7e180b586b6eac89db744164e58d14a",
    }
