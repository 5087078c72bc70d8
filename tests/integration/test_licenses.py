"""The crates in the wheels are listed with their licences.

The licences and the SBOM in a wheel are checked where wheels are built, in ci/wheels.sh.
"""

import runpy
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LICENSES = runpy.run_path(str(ROOT / "ci" / "licenses.py"))


def test_the_licences_are_those_of_the_crates_that_are_linked():
    """Otherwise `make licenses` updates them."""
    written = (ROOT / "THIRD_PARTY_LICENSES").read_text()
    assert "\n- pyo3 " in written
    assert written == LICENSES["rendered"]()


def test_distributions_carry_the_licences():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["license-files"] == ["LICENSE", "THIRD_PARTY_LICENSES"]
    image = (ROOT / ".dockerignore").read_text().splitlines()
    assert {f"!{name}" for name in project["license-files"]} <= set(image)
