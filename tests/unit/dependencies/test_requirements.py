"""Requirements do not hide the packages that penstock itself uses."""

import importlib.metadata
import logging
import sys

import pytest
from penstock.dependencies.requirements import core_versions, keep_core_packages


@pytest.fixture
def folder(tmp_path):
    """Return a folder as ``pip install --target`` creates it."""

    def install(name, version, *files):
        information = f"{name}-{version}.dist-info"
        listed = [*files, f"{information}/METADATA", f"{information}/RECORD", "../../bin/script"]
        for file in listed[:-1]:
            (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / file).write_text("")
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        (tmp_path / information / "METADATA").write_text(metadata)
        record = "".join(f"{file},,\n" for file in listed)
        (tmp_path / information / "RECORD").write_text(record)

    install("cloudpickle", "2.2.0", "cloudpickle/__init__.py", "cloudpickle/compat/old.py")
    install("Msgspec", "0.18", "msgspec/__init__.py", "msgspec/_core.so")
    install("psutil", "6.0", "psutil/__init__.py")
    install("pyarrow", "14.0", "pyarrow/__init__.py", "shared/of_pyarrow.py")
    install("requests", "2.0", "requests/__init__.py", "shared/of_requests.py")
    (tmp_path / "cloudpickle" / "__pycache__").mkdir()
    (tmp_path / "cloudpickle" / "__pycache__" / "x.pyc").write_text("")
    return tmp_path


def test_the_workers_own_core_packages_win(folder, caplog):
    """The warning names both versions; packages that the worker lacks are used."""
    own = {"cloudpickle": "3.1.3", "msgspec": "0.19", "psutil": "6.0"}
    with caplog.at_level(logging.WARNING):
        keep_core_packages(folder, own)
    assert {path.name for path in folder.iterdir() if not path.name.endswith("info")} == {
        "psutil",
        "pyarrow",
        "requests",
        "shared",
    }
    assert "contain cloudpickle 2.2.0, but penstock on the workers uses cloudpickle 3.1.3" in (
        caplog.text
    )
    assert "contain msgspec 0.18" in caplog.text
    assert len(caplog.records) == 2
    caplog.clear()
    keep_core_packages(folder, own)
    assert caplog.records == []
    keep_core_packages(folder, {"pyarrow": "20.0"})
    assert [path.name for path in (folder / "shared").iterdir()] == ["of_requests.py"]


def test_an_interpreter_tells_its_core_packages():
    own = core_versions(sys.executable)
    assert own["cloudpickle"] == importlib.metadata.version("cloudpickle")
    assert own["msgspec"] == importlib.metadata.version("msgspec")
