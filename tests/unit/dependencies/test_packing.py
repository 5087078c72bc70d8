"""Folders become bytes and archives folders, and nothing leaves its folder."""

import io
import stat
import tarfile
import zipfile

import pytest
from penstock.dependencies.packing import pack_folder, unpack
from penstock.errors import DependencyError


def packed(folder):
    out = io.BytesIO()
    pack_folder(folder, out)
    return out.getvalue()


def test_a_folder_comes_back_and_its_bytes_depend_on_its_content_alone(tmp_path):
    """Links are followed, but not into a folder they lie in; byte code stays behind."""
    (tmp_path / "a" / "__pycache__").mkdir(parents=True)
    (tmp_path / "a" / "tool").write_text("run")
    (tmp_path / "a" / "tool").chmod(0o755)
    (tmp_path / "a" / "empty").mkdir()
    (tmp_path / "outside").write_text("linked")
    (tmp_path / "a" / "link").symlink_to(tmp_path / "outside")
    (tmp_path / "a" / "loop").symlink_to(tmp_path / "a")
    data = packed(tmp_path / "a")
    (tmp_path / "a" / "tool").touch()
    assert packed(tmp_path / "a") == data
    (tmp_path / "a.tar").write_bytes(data)
    (tmp_path / "b").mkdir()
    unpack(tmp_path / "a.tar", "tar", tmp_path / "b")
    assert sorted(path.name for path in (tmp_path / "b").iterdir()) == ["empty", "link", "tool"]
    assert (tmp_path / "b" / "link").read_text() == "linked"
    assert stat.S_IMODE((tmp_path / "b" / "tool").stat().st_mode) == 0o755


@pytest.mark.parametrize("name", ["../escaped", "/escaped", "link/escaped"])
@pytest.mark.parametrize("packing", ["zip", "tar"])
def test_a_member_outside_of_the_folder_is_refused(tmp_path, packing, name):
    archive, inside = tmp_path / f"evil.{packing}", tmp_path / "inside"
    inside.mkdir()
    if packing == "zip":
        with zipfile.ZipFile(archive, "w") as made:
            link = zipfile.ZipInfo("link")
            link.external_attr = (stat.S_IFLNK | 0o777) << 16
            made.writestr(link, str(tmp_path))
            made.writestr(name, "x")
    else:
        with tarfile.open(archive, "w") as made:
            link = tarfile.TarInfo("link")
            link.type, link.linkname = tarfile.SYMTYPE, str(tmp_path)
            made.addfile(link)
            made.addfile(tarfile.TarInfo(name), io.BytesIO())
    if (packing, name) == ("tar", "/escaped"):
        unpack(archive, packing, inside)  # tar's own rule: a leading slash is dropped
        assert (inside / "escaped").exists()
    else:
        with pytest.raises(DependencyError, match=r"evil\."):
            unpack(archive, packing, inside)
    assert not (tmp_path / "escaped").exists()


@pytest.mark.parametrize("packing", ["zip", "tar"])
@pytest.mark.parametrize("data", [b"", b"PK\x03\x04", b"\x1f\x8b\x08 nonsense"])
def test_a_damaged_archive_is_named(tmp_path, packing, data):
    archive = tmp_path / "damaged"
    archive.write_bytes(data)
    (tmp_path / "out").mkdir()
    with pytest.raises(DependencyError, match="the archive damaged cannot be unpacked"):
        unpack(archive, packing, tmp_path / "out")
