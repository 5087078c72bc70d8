"""Checks of how docstrings and pages read, as far as a machine can tell.

Usage: python ci/english.py

Docstrings, paragraphs of Rust's doc comments and names of tests begin with a verb or a noun, not
with a word that makes a sentence hard to parse.  Sentences of pages have at most 35 words;
headings, tables and code do not count.  Pages have no words that promise too much or that only an
old book would use, and no broken links.  Those of the guide have at most 250 lines, the README
120 and the changelog 180.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FIRST_WORDS = re.compile(
    r'^\s*[rf]?"""(What|Who|Whose|Whether|How|Where|That|Those|It)\b', re.MULTILINE
)
FIRST_WORDS_OF_TESTS = re.compile(
    r"^ *(?:async )?def test_(what|who|whose|whether|how|that|those|where)_", re.MULTILINE
)
FIRST_WORDS_OF_RUST = re.compile(
    r"(?:^|^\s*//[/!](?: #.*)?\n|^(?!\s*//).*\n)\s*//[/!] (What|Who|Whose|Whether|How)\b",
    re.MULTILINE,
)
SOURCES = ("python", "native", "tests", "benchmarks", "examples", "ci", "docs")
BANNED_WORDS = re.compile(
    r"\b(leverag\w+|utili[sz]\w+|seamless\w*|blazing\w*|effortless\w*|cutting-edge|world-class"
    r"|powerful|simply|easily|obviously|in order to|that which|goes on|go on|comes back|come back"
    r"|(?:is|are|was|were|be) told|anew|thereby|whereby|hence|upon|amongst|shall)\b",
    re.IGNORECASE,
)
LONGEST_SENTENCE = 35
LONGEST_PAGE = 250
LONGEST_OF_FRONT = {"README.md": 120, "CHANGELOG.md": 180}


def first_words() -> Iterator[str]:
    """Yield the docstrings and the names of tests that begin with a word they should not."""
    sources = [
        (path, FIRST_WORDS)
        for room in SOURCES
        for path in sorted((ROOT / room).rglob("*.py*"))
        if path.suffix in {".py", ".pyi", ".pyx"}
    ]
    sources += [(path, FIRST_WORDS_OF_RUST) for path in sorted((ROOT / "rust").rglob("*.rs"))]
    sources += [(path, FIRST_WORDS_OF_TESTS) for path in sorted((ROOT / "tests").rglob("*.py"))]
    for path, pattern in sources:
        text = path.read_text()
        for found in pattern.finditer(text):
            line = text.count("\n", 0, found.start(1)) + 1
            what = "a test's name" if pattern is FIRST_WORDS_OF_TESTS else "a docstring"
            yield f'{path.relative_to(ROOT)}:{line}: {what} begins with "{found[1]}"'


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a page: links by their text, code as one word."""
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    for line in text.splitlines():
        if not line.startswith(("|", "#")):
            plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", line)
            plain = re.sub(r"`[^`]*`", "code", plain)
            yield from re.split(r"(?<=[.!?:;])\s+", plain)


def pages() -> list[Path]:
    """Return the pages that people read."""
    below = [
        page for room in ("docs", "tests", "benchmarks") for page in (ROOT / room).rglob("*.md")
    ]
    return [*sorted(ROOT.glob("*.md")), *sorted(below)]


def wordings() -> Iterator[str]:
    """Yield the sentences of pages that are too long, and banned words."""
    for page in pages():
        name, text = page.relative_to(ROOT), page.read_text()
        for sentence in sentences(text):
            words = len(sentence.split())
            if words > LONGEST_SENTENCE:
                yield f"{name}: a sentence of {words} words: {sentence[:80]}…"
        for found in BANNED_WORDS.finditer(re.sub(r"```.*?```|`[^`]*`", "", text, flags=re.DOTALL)):
            yield f'{name}: "{found[0]}" is banned'


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", one.lower()).strip().replace(" ", "-") for one in headings}


def broken_links() -> Iterator[str]:
    """Yield links to files or headings that do not exist."""
    for page in pages():
        for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
            name, _, anchor = link.partition("#")
            target = (page.parent / name).resolve() if name else page
            if "://" not in link and not (
                target.exists() and (not anchor or anchor in anchors(target))
            ):
                yield f"{page.relative_to(ROOT)}: the link {link} leads nowhere"


def long_pages() -> Iterator[str]:
    """Yield the pages of the guide, and those at its front, that are too long."""
    limits = dict.fromkeys((ROOT / "docs").rglob("*.md"), LONGEST_PAGE)
    limits |= {ROOT / name: limit for name, limit in LONGEST_OF_FRONT.items()}
    for page, limit in sorted(limits.items()):
        lines = page.read_text().count("\n")
        if lines > limit:
            yield f"{page.relative_to(ROOT)}: {lines} lines, at most {limit}: divide or condense it"


def main() -> int:
    """Print what to rewrite; return the exit status."""
    found = [*first_words(), *wordings(), *broken_links(), *long_pages()]
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
