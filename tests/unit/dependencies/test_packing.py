"""Folders become bytes and archives become folders, and nothing is written outside."""

import gzip
import io
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest
from penstock.dependencies import unpacking
from penstock.dependencies.packing import pack_folder
from penstock.dependencies.unpacking import unpack
from penstock.errors import DependencyError


def packed(folder):
    out = io.BytesIO()
    pack_folder(folder, out)
    return out.getvalue()


def test_a_folder_is_read_back_and_its_bytes_depend_on_its_content_alone(tmp_path):
    """Links are followed, except to a folder that contains them; byte code is left out."""
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
        unpack(archive, packing, inside)  # tar's own rule: it drops a leading slash
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


def tar_of(path, *members):
    """Write a tar of files (name, content) or of links (name, type, target)."""
    with tarfile.open(path, "w") as made:
        for name, what, *target in members:
            member = tarfile.TarInfo(name)
            if target:
                member.type, member.linkname = what, target[0]
                made.addfile(member)
            else:
                member.size = len(what)
                made.addfile(member, io.BytesIO(what))
    return path


def outside_of_links(tmp_path):
    """Return a folder with a file that must survive, and archives that try to change the file."""
    victim = str(tmp_path / "victim")
    deep = "d" * 247
    chain, links = "", []
    for name in "abcdefghijklmnop":  # CVE-2025-4517: paths beyond PATH_MAX are not resolved
        links += [
            (f"{chain}{deep}", tarfile.DIRTYPE, "-"),
            (f"{chain}{name}", tarfile.SYMTYPE, deep),
        ]
        chain += f"{deep}/"
    short = "/".join("abcdefghijklmnop")
    return {
        "hard link": [("v", tarfile.LNKTYPE, victim), ("v", b"EVIL")],
        "hard link upwards": [("v", tarfile.LNKTYPE, "../victim"), ("v", b"EVIL")],
        "hard link through a link": [
            ("out", tarfile.SYMTYPE, ".."),
            ("v", tarfile.LNKTYPE, "out/victim"),
            ("v", b"EVIL"),
        ],
        "hard link to a link": [
            ("s", tarfile.SYMTYPE, victim),
            ("v", tarfile.LNKTYPE, "s"),
            ("v", b"EVIL"),
        ],
        "through chained links": [
            ("a", tarfile.SYMTYPE, "."),
            ("b", tarfile.SYMTYPE, "a/.."),
            ("b/victim", b"EVIL"),
        ],
        "through a long path": [
            *links,
            (f"{short}/{'l' * 254}", tarfile.SYMTYPE, "../" * 16),
            ("escape", tarfile.SYMTYPE, f"{short}/{'l' * 254}/../"),
            ("escape/victim", b"EVIL"),
        ],
        "a device": [("v", tarfile.FIFOTYPE, "-")],
    }


@pytest.mark.parametrize("way", outside_of_links(Path("/x")))
def test_no_link_leads_a_member_outside(tmp_path, way):
    victim, inside = tmp_path / "victim", tmp_path / "inside"
    victim.write_text("good")
    inside.mkdir()
    archive = tar_of(tmp_path / "evil.tar", *outside_of_links(tmp_path)[way])
    with pytest.raises(DependencyError, match=r"the archive evil\.tar cannot be unpacked"):
        unpack(archive, "tar", inside)
    assert victim.read_text() == "good"
    assert victim.stat().st_nlink == 1


def test_a_member_that_comes_again_is_not_written_through_links(tmp_path):
    """A link to the outside may exist, as in an interpreter's folder; the member replaces it."""
    victim, inside = tmp_path / "victim", tmp_path / "inside"
    victim.write_text("good")
    inside.mkdir()
    members = [("v", tarfile.SYMTYPE, str(victim)), ("v", b"new"), ("w", tarfile.LNKTYPE, "v")]
    unpack(tar_of(tmp_path / "a.tar", *members, ("w", b"newer")), "tar", inside)
    assert (victim.read_text(), (inside / "v").read_text()) == ("good", "new")
    assert (inside / "w").read_text() == "newer"


def test_hard_links_within_an_archive_are_kept(tmp_path):
    inside = tmp_path / "inside"
    inside.mkdir()
    members = [("bin/python", b"run"), ("bin/python3", tarfile.LNKTYPE, "bin/python")]
    unpack(tar_of(tmp_path / "a.tar", *members), "tar", inside)
    assert (inside / "bin/python3").samefile(inside / "bin/python")


@pytest.mark.parametrize("packing", ["zip", "tar"])
def test_an_archive_that_grows_too_much_is_refused(tmp_path, monkeypatch, packing):
    monkeypatch.setattr(unpacking, "ALWAYS_ALLOWED_BYTES", 1 << 20)
    archive, inside = tmp_path / "bomb", tmp_path / "inside"
    inside.mkdir()
    zeros = bytes(4 << 20)
    if packing == "zip":
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as made:
            made.writestr("zeros", zeros)
    else:
        with tarfile.open(archive, "w:gz") as made:
            member = tarfile.TarInfo("zeros")
            member.size = len(zeros)
            made.addfile(member, io.BytesIO(zeros))
    with pytest.raises(DependencyError, match="'zeros' makes it more than 100 times as large"):
        unpack(archive, packing, inside)
    assert (inside / "zeros").stat().st_size <= 2 << 20


def test_an_archive_has_a_bound_of_members(tmp_path, monkeypatch):
    monkeypatch.setattr(unpacking, "MAX_MEMBERS", 3)
    archive = tar_of(tmp_path / "many.tar", *((f"f{number}", b"") for number in range(4)))
    (tmp_path / "inside").mkdir()
    with pytest.raises(DependencyError, match=r"many\.tar has more than 3 files"):
        unpack(archive, "tar", tmp_path / "inside")


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
def test_a_header_of_a_tar_has_a_bound(tmp_path, kind):
    """`tarfile` alone would read all of it into memory, from few compressed bytes."""
    member = tarfile.TarInfo("header")
    member.type, member.size = kind, 1 << 30
    (tmp_path / "inside").mkdir()
    (tmp_path / "a.tgz").write_bytes(gzip.compress(member.tobuf() + bytes(1 << 20)))
    with pytest.raises(DependencyError, match=r"a\.tgz .*a header of 1073741824 bytes"):
        unpack(tmp_path / "a.tgz", "tar", tmp_path / "inside")


def test_the_bytes_of_a_tar_have_a_bound(tmp_path, monkeypatch):
    """A sparse file's header continues in the following blocks, as long as they say so."""
    monkeypatch.setattr(unpacking, "ALWAYS_ALLOWED_BYTES", 1 << 20)
    sparse = tarfile.TarInfo("sparse")
    sparse.type = tarfile.GNUTYPE_SPARSE
    header = bytearray(sparse.tobuf(tarfile.GNU_FORMAT))
    header[482] = 1
    header[148:156] = b"%06o\0 " % (sum(header[:148]) + 8 * 32 + sum(header[156:]))
    (tmp_path / "inside").mkdir()
    blocks = (bytes(504) + b"\1" + bytes(7)) * (8 << 11)
    (tmp_path / "a.tgz").write_bytes(gzip.compress(bytes(header) + blocks))
    with pytest.raises(DependencyError, match=r"a\.tgz .*it has more than"):
        unpack(tmp_path / "a.tgz", "tar", tmp_path / "inside")


def test_errors_of_archive_modules_name_the_archive(tmp_path):
    """An empty name of a zip is an IndexError, a time of a tar an OverflowError."""
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as made:
        made.writestr("name", "x")
    data = (tmp_path / "a.zip").read_bytes().replace(b"name", b"\0ame")
    (tmp_path / "a.zip").write_bytes(data)
    late = tarfile.TarInfo("late")
    late.mtime = 1 << 70
    (tmp_path / "a.tar").write_bytes(late.tobuf(tarfile.GNU_FORMAT) + bytes(1024))
    for packing in ("zip", "tar"):
        (tmp_path / packing).mkdir()
        with pytest.raises(DependencyError, match=rf"a\.{packing} cannot be unpacked: \w+Error"):
            unpack(tmp_path / f"a.{packing}", packing, tmp_path / packing)


@pytest.mark.parametrize("compression", ["", "gz", "bz2", "xz"])
def test_a_tar_is_known_by_its_bytes(tmp_path, compression):
    with tarfile.open(tmp_path / "a", f"w:{compression}") as made:
        member = tarfile.TarInfo("a" * 120 + "/b")
        member.size = 3
        made.addfile(member, io.BytesIO(b"abc"))
    (tmp_path / "inside").mkdir()
    unpack(tmp_path / "a", "tar", tmp_path / "inside")
    assert (tmp_path / "inside" / ("a" * 120) / "b").read_bytes() == b"abc"


def test_a_tar_that_begins_with_a_name_like_a_magic(tmp_path):
    (tmp_path / "inside").mkdir()
    unpack(tar_of(tmp_path / "a.tar", ("BZh9", b"abc")), "tar", tmp_path / "inside")
    assert (tmp_path / "inside" / "BZh9").read_bytes() == b"abc"


def test_folders_on_the_way_count_as_members(tmp_path, monkeypatch):
    monkeypatch.setattr(unpacking, "MAX_MEMBERS", 3)
    (tmp_path / "inside").mkdir()
    with pytest.raises(DependencyError, match=r"deep\.tar has more than 3 files"):
        unpack(tar_of(tmp_path / "deep.tar", ("a/b/c/d", b"")), "tar", tmp_path / "inside")


def test_a_folder_is_one_member(tmp_path, monkeypatch):
    monkeypatch.setattr(unpacking, "MAX_MEMBERS", 2)
    folders = [tarfile.TarInfo("a"), tarfile.TarInfo("a/b")]
    with tarfile.open(tmp_path / "folders.tar", "w") as packed:
        for folder in folders:
            folder.type = tarfile.DIRTYPE
            packed.addfile(folder)
    (tmp_path / "inside").mkdir()
    unpack(tmp_path / "folders.tar", "tar", tmp_path / "inside")
    assert (tmp_path / "inside" / "a" / "b").is_dir()
