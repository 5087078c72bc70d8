"""A release has one version, and every file with a version states the same one."""

import re
import tomllib
from pathlib import Path

from penstock import __version__

ROOT = Path(__file__).resolve().parents[2]


def of_toml(name: str) -> dict:
    return tomllib.loads((ROOT / name).read_text())


def test_packages_have_the_version_of_the_release() -> None:
    assert of_toml("pyproject.toml")["project"]["version"] == __version__
    assert of_toml("Cargo.toml")["workspace"]["package"]["version"] == __version__
    ours = [
        package["version"]
        for package in of_toml("Cargo.lock")["package"]
        if package["name"].startswith("penstock-")
    ]
    assert ours == [__version__] * 5


def test_pages_name_the_release() -> None:
    releases = re.findall(r"^## (\d+\.\d+\.\d+) ", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert releases[0] == __version__
    major_and_minor = __version__.rpartition(".")[0]
    for page in ("README.md", "docs/compatibility.md"):
        assert f"penstock is at version {major_and_minor}" in (ROOT / page).read_text(), page
