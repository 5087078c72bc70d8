"""The path on which Spark's Python processes search for modules."""

from pathlib import Path

from penstock.spark.python_daemon import without_own_archives


def install_pyspark(site: Path) -> str:
    archives = site / "pyspark" / "python" / "lib"
    archives.mkdir(parents=True)
    (site / "pyspark" / "__init__.py").touch()
    return str(archives / "pyspark.zip")


def test_installed_files_stand_in_for_their_own_archive(tmp_path: Path) -> None:
    """Each process compiles the modules of an archive again."""
    archive = install_pyspark(tmp_path)
    others = [str(tmp_path / "jobs"), str(tmp_path), str(Path(archive).with_name("py4j-src.zip"))]
    assert without_own_archives([archive, *others]) == others


def test_archive_of_another_pyspark_stays(tmp_path: Path) -> None:
    """Spark's own pyspark must be used."""
    install_pyspark(tmp_path / "site")
    path = [str(tmp_path / "spark" / "python" / "lib" / "pyspark.zip"), str(tmp_path / "site")]
    assert without_own_archives(path) == path


def test_archive_stays_where_no_files_are_installed(tmp_path: Path) -> None:
    archive = install_pyspark(tmp_path / "spark")
    path = [archive, str(tmp_path / "site")]
    assert without_own_archives(path) == path
