"""Every Python example of the documents runs."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = [
    pytest.param(example, id=f"{page.relative_to(ROOT)}-{number}")
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for number, example in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.S))
]


MESSAGES = re.findall(
    r"^### `(.*)`$", (ROOT / "docs" / "troubleshooting.md").read_text(), re.MULTILINE
)


def test_messages_that_are_explained_exist() -> None:
    """Each part of a message stands in one text of the sources."""
    sources = "".join(path.read_text() for path in (ROOT / "python" / "penstock").rglob("*.py"))
    parts = [part.strip(" :") for message in MESSAGES for part in message.split("…")]
    assert len(parts) > 10
    assert [part for part in parts if part not in sources] == []


def test_extras_are_those_of_the_distribution() -> None:
    # penstock itself is another project on PyPI.
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


def test_what_the_guide_imports_is_in_the_reference() -> None:
    pages = [*(ROOT / "docs").glob("*.md"), *(ROOT / "examples").glob("*.py")]
    text = "\n".join(page.read_text() for page in pages)
    imported = set(re.findall(r"^ *from (penstock[\w.]*) import", text, re.MULTILINE))
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
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text())
    if "://" not in link
]


def test_links_lead_somewhere() -> None:
    """Files exist, and headings with the anchors that are named."""

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


@pytest.mark.parametrize("example", EXAMPLES)
def test_example_runs(example: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PENSTOCK_EXECUTION_TARGET", "local")
    exec(compile(example, "example", "exec"), {"__name__": "__main__"})
