"""Declarations of a program are checked in the call, and options in the same way."""

import os
import zipfile

import pytest
from penstock.common import Configuration
from penstock.datastream import StreamExecutionEnvironment
from penstock.dependencies.declarations import Dependencies
from penstock.errors import ConfigurationError, InvalidProgramError


@pytest.fixture
def env():
    return StreamExecutionEnvironment(Configuration())


@pytest.fixture
def archive(tmp_path):
    path = tmp_path / "code.zip"
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("a.py", "")
    return str(path)


@pytest.mark.parametrize(
    ("call", "arguments", "message"),
    [
        ("add_python_file", ["/nowhere/a.py"], "there is no file or folder '/nowhere/a.py'"),
        ("add_python_file", ["hdfs://host/a.py"], "another file system"),
        ("add_python_file", ["/a,b.py"], "a path with ',' or '#'"),
        ("add_python_file", [None], "must be a string, got None"),
        ("add_python_file", [""], "a path is a text"),
        ("add_python_archive", ["/nowhere/a.zip"], "there is no file"),
        ("add_python_archive", ["TEXT"], "is not an archive"),
        ("add_python_archive", ["FOLDER"], "is not an archive"),
        ("add_python_archive", ["ZIP", "../out"], "below the working directory, not to '../out'"),
        ("add_python_archive", ["ZIP", "/out"], "below the working directory"),
        ("add_python_archive", ["ZIP#../out"], "below the working directory"),
        ("add_python_archive", ["ZIP", ""], "the folder of an archive is a name, got ''"),
        ("add_python_archive", ["ZIP", 3], "must be a string, got 3"),
        ("set_python_requirements", ["/nowhere/r.txt"], "there is no file"),
        ("set_python_requirements", ["FOLDER"], "is not a requirements file"),
        ("set_python_requirements", ["TEXT", "/nowhere"], "there is no file or folder '/nowhere'"),
        ("set_python_requirements", ["TEXT", "TEXT"], "is not a folder of packages"),
        ("set_python_executable", [""], "an interpreter is a path or a name, got ''"),
        ("set_python_executable", [3], "got 3"),
        ("register_cached_file", ["/nowhere", "name"], "there is no file"),
        ("register_cached_file", ["TEXT", ""], "the name of a cached file is a text, got ''"),
        ("register_cached_file", ["s3://bucket/a", "name"], "another file system"),
    ],
)
def test_a_wrong_argument_is_refused_in_the_call(env, archive, tmp_path, call, arguments, message):
    text = tmp_path / "text.txt"
    text.touch()
    places = {"TEXT": str(text), "FOLDER": str(tmp_path), "ZIP": archive}
    given = list(arguments)
    for index, value in enumerate(given):
        for name, place in places.items():
            if isinstance(value, str):
                value = given[index] = value.replace(name, place)
    with pytest.raises(InvalidProgramError, match=f"{call}: .*{message}"):
        getattr(env, call)(*given)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"python.files": "/nowhere/a.py"}, "python.files: there is no file"),
        ({"python.archives": "/nowhere/a.zip#b"}, "python.archives: there is no file"),
        ({"python.requirements": "/nowhere/r.txt#"}, "python.requirements: there is no file"),
        ({"pipeline.cached-files": "path:/tmp"}, "lacks its name"),
        ({"pipeline.cached-files": "name:a,path:/tmp,mode:7"}, "'mode' is none of name"),
        ({"pipeline.cached-files": "name:a,path:/tmp,executable:x"}, "executable is true or false"),
        ({"pipeline.cached-files": "name:a,path:/tmp;name:a,path:/"}, "two files have the name"),
    ],
)
def test_a_wrong_option_is_named(options, message):
    with pytest.raises(ConfigurationError, match=message):
        Dependencies.from_configuration(options)


def test_options_have_flinks_form(env, archive, tmp_path, monkeypatch):
    """Relative paths are resolved at once; the file added last comes first, as in PyFlink."""
    monkeypatch.chdir(tmp_path)
    for name in ("one.py", "two.py", "r.txt"):
        (tmp_path / name).touch()
    env.add_python_file("one.py")
    env.add_python_file((tmp_path / "two.py").as_uri())
    env.add_python_archive(archive, "target/inner")
    env.add_python_archive(archive)
    env.set_python_requirements("r.txt", str(tmp_path))
    env.set_python_executable("target/bin/python")
    env.register_cached_file("r.txt", "it's; a, name", executable=True)
    env.register_cached_file("r.txt", "it's; a, name", executable=True)
    options = env.get_configuration().to_dict()
    assert options == {
        "python.files": f"{tmp_path}/two.py,{tmp_path}/one.py",
        "python.archives": f"{archive}#target/inner,{archive}#code.zip",
        "python.requirements": f"{tmp_path}/r.txt#{tmp_path}",
        "python.executable": "target/bin/python",
        "pipeline.cached-files": f"name:'it''s; a, name',path:{tmp_path}/r.txt,executable:true",
    }
    found = Dependencies.from_configuration(options)
    assert [path.name for path in found.files] == ["two.py", "one.py"]
    assert [a.target for a in found.archives] == ["target/inner", "code.zip"]
    assert found.requirements.packages == tmp_path
    assert found.cached_files[0].name == "it's; a, name"


def test_one_folder_holds_one_archive(env, archive, tmp_path):
    other = tmp_path / "other.zip"
    os.link(archive, other)
    env.add_python_archive(archive, "data")
    env.add_python_archive(archive, "data")
    with pytest.raises(InvalidProgramError, match=r"code.zip' is unpacked to 'data' already"):
        env.add_python_archive(str(other), "data")


def test_one_name_is_one_file(env, archive, tmp_path):
    env.register_cached_file(archive, "name")
    with pytest.raises(InvalidProgramError, match="'name' is registered already"):
        env.register_cached_file(str(tmp_path), "name")
