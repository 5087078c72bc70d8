"""Every Python example of the documents runs.

The fence of an example says how: ``python`` is executed here.  ``py`` and ``sql`` need a server,
and are executed here only until the job is planned; compiled plans are executed.  ``yaml`` holds
options, which are checked.  ``py spark`` needs Spark: see e2e/test_guide_on_spark.py.
``py file NAME`` is a file of the tutorial: see e2e/test_tutorial.py.  Command lines are parsed.
"""

import ast
import re
import shlex
import shutil
import tomllib
from pathlib import Path

import click
import pytest
import yaml
from penstock.command_line.main import main
from penstock.common.options.check import check_options
from penstock.datastream import StreamExecutionEnvironment
from penstock.table import EnvironmentSettings, TableEnvironment
from penstock.table.sql.scripts import split_script

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def examples(fence):
    """Return the blocks with a fence, as parameters."""
    return [
        pytest.param(example, id=f"{page.relative_to(ROOT)}-{number}")
        for page in PAGES
        for number, example in enumerate(
            re.findall(rf"^```{fence}\n(.*?)^```", page.read_text(), re.M | re.S)
        )
    ]


MESSAGES = re.findall(
    r"^### `(.*)`$", (ROOT / "docs" / "troubleshooting.md").read_text(), re.MULTILINE
)


def test_messages_that_are_explained_exist() -> None:
    """Each part of an explained message is in one text of the sources."""
    sources = "".join(path.read_text() for path in (ROOT / "python" / "penstock").rglob("*.py"))
    parts = [part.strip(" :") for message in MESSAGES for part in message.split("…")]
    assert len(parts) > 10
    assert [part for part in parts if part not in sources] == []


def test_extras_are_those_of_the_distribution() -> None:
    # The name penstock belongs to another project on PyPI.
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = set(project["optional-dependencies"])
    folders = [ROOT / "python" / "penstock", ROOT / "docs"]
    texts = {path: path.read_text() for folder in folders for path in folder.rglob("*.[pm][yd]")}
    named = {
        (path, distribution, extra)
        for path, text in texts.items()
        for distribution, several in re.findall(r"\b(penstock[\w-]*)\[([a-z,]+)\]", text)
        for extra in several.split(",")
        if extra in extras
    }
    assert len(named) > 40
    assert {distribution for _, distribution, _ in named} == {project["name"]}, named
    others = re.compile(r"\bpenstock[=<>~]=|\bpip install (-\S+ )*['\"]?penstock\b(?!-engine)")
    texts |= {path: path.read_text() for path in (ROOT / "README.md", ROOT / "Dockerfile")}
    assert [path for path, text in texts.items() if others.search(text)] == []


def test_extras_with_columns_bring_numpy() -> None:
    """Operators on batches of columns compute with numpy, which pyarrow does not require."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    with_columns = {
        extra: needed
        for extra, needed in project["optional-dependencies"].items()
        if "pyarrow" in " ".join(needed)
    }
    assert len(with_columns) >= 6
    for extra, needed in with_columns.items():
        assert any(name.startswith("numpy") for name in needed), extra


def test_imports_of_the_guide_are_in_the_reference() -> None:
    pages = [*(ROOT / "docs").glob("*.md"), *(ROOT / "examples").glob("*.py")]
    text = "\n".join(page.read_text() for page in pages)
    imported = set(re.findall(r"^ *from (penstock\.[\w.]+) import", text, re.MULTILINE))
    rooms = re.findall(r"^ *from penstock import (\w+)$", text, re.MULTILINE)
    imported |= {f"penstock.{room}" for room in rooms}
    reference = [ROOT / "docs" / "reference.md", *(ROOT / "docs" / "reference").glob("*.md")]
    described = {
        module
        for page in reference
        for module in re.findall(r"automodule:: ([\w.]+)", page.read_text())
    }
    assert len(imported) > 20
    assert imported - described == set()


LINKS = [
    (page, link)
    for page in PAGES
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text())
    if "://" not in link
]


def test_links_lead_somewhere() -> None:
    """Linked files exist, and contain headings for the anchors that links name."""

    def anchors(page: Path) -> set[str]:
        headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
        return {
            re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-")
            for heading in headings
        }

    broken = []
    for page, link in LINKS:
        name, _, anchor = link.partition("#")
        target = page if not name else (page.parent / name).resolve()
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(f"{page.relative_to(ROOT)}: {link}")
    assert broken == []


def test_tests_that_the_guide_names_exist() -> None:
    """A page that relies on a test names it as file::function."""
    missing = []
    named = 0
    for page in PAGES:
        for path, function in re.findall(
            r"`(tests/[\w/]+\.py)(?:::(\w+))?`", page.read_text(), re.ASCII
        ):
            named += 1
            file = ROOT / path
            if not file.is_file() or (function and f"def {function}(" not in file.read_text()):
                missing.append(f"{page.relative_to(ROOT)}: {path}::{function}")
    assert named > 30
    assert missing == []


@pytest.fixture(scope="module")
def common_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of all examples: workers of one folder are forked from one server."""
    return tmp_path_factory.mktemp("examples")


@pytest.mark.process
@pytest.mark.parametrize("example", examples("python"))
def test_example_runs(example: str, monkeypatch: pytest.MonkeyPatch, common_folder: Path) -> None:
    for left in common_folder.iterdir():
        shutil.rmtree(left) if left.is_dir() else left.unlink()
    monkeypatch.chdir(common_folder)
    monkeypatch.setenv("PENSTOCK_EXECUTION_TARGET", "local")
    exec(compile(example, "example", "exec"), {"__name__": "__main__"})


@pytest.mark.parametrize("example", examples("py"))
def test_example_that_needs_a_server_builds_its_job(
    example: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plans = []

    def plan(env, *names):
        plans.append(env.get_execution_plan())

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PENSTOCK_SESSION_TOKEN", "0123456789abcdef" * 4)
    monkeypatch.setattr(StreamExecutionEnvironment, "execute", plan)
    exec(compile(example, "example", "exec"), {"__name__": "__main__"})
    assert bool(plans) == (".execute(" in example)


#: The page of statements has no tables for them; `test_reference_pages` parses each.
SQL = [one for one in examples("sql") if "sql/statements" not in one.id]


@pytest.mark.parametrize("example", SQL)
def test_sql_that_needs_a_server_is_planned(
    example: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PENSTOCK_EXECUTION_TARGET", "local")
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for statement in (one.text for one in split_script(example)):
        if statement.startswith(("CREATE TABLE", "COMPILE PLAN")):
            tables.execute_sql(statement)
        elif statement.startswith("EXECUTE PLAN"):
            tables.execute_sql(statement).wait()
        else:
            assert "Abstract Syntax Tree" in tables.explain_sql(statement)


@pytest.mark.parametrize("example", examples("yaml"))
def test_options_of_an_example_are_valid(example: str) -> None:
    check_options({key: str(value) for key, value in yaml.safe_load(example).items()})


def command_lines():
    """Yield the command lines of penstock in plain blocks, without those that describe a syntax."""
    for page in PAGES:
        for fence, block in re.findall(r"^```([^\n]*)\n(.*?)^```$", page.read_text(), re.M | re.S):
            for line in re.findall(
                r"^(?:\$ )?(?:[A-Z_]+=\S+ )*penstock ((?:[^\\\n]|\\\n)+)$", block, re.M
            ):
                command = line.partition(" #")[0]
                if fence in ("", "sh") and not re.search(r"…[ \n]|…$| \[", command):
                    yield f"{page.relative_to(ROOT)}: {command}", command.replace("\\\n", " ")


def test_commands_of_the_guide_are_those_of_the_command_line() -> None:
    """They are parsed, and not run."""
    number = 0
    for place, line in command_lines():
        if line.count('"') % 2:  # an SQL statement of several lines
            line += '"'
        words = shlex.split(re.sub(r"\bN\b", "2", line))
        with click.Context(main) as context:
            command = main
            while isinstance(command, click.Group) and words[0] in command.list_commands(context):
                name = words.pop(0)
                command = command.get_command(context, name)
            assert command is not main, place
            try:
                command.make_context(name, words, parent=context)
            except click.UsageError as error:
                pytest.fail(f"{place}: {error.message}")
        number += 1
    assert number > 30


def test_every_program_has_a_fence_that_runs_it() -> None:
    fence = re.compile(
        r"^```(?!python\n|py\n|py spark\n|py file )(?:[^\n]+)?\n(.*?)^```", re.M | re.S
    )
    unmarked = []
    for page in PAGES:
        if page.parent.name != "tutorial":
            assert "\n```py file " not in page.read_text(), f"{page}: no test writes this file"
        for block in fence.findall(page.read_text()):
            try:
                tree = ast.parse(block)
            except SyntaxError:
                continue
            if any(
                isinstance(node, ast.Import | ast.ImportFrom | ast.Assign) for node in tree.body
            ):
                unmarked.append(f"{page.relative_to(ROOT)}: {block[:60]}")
    assert unmarked == []
