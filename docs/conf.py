"""Configuration of Sphinx: `make docs` builds a site from these pages and from the docstrings."""

import importlib
import logging
import re
import shutil
import tomllib
from collections import defaultdict
from functools import cache
from pathlib import Path

project = "penstock"
_PYPROJECT = tomllib.loads(Path(__file__).parents[1].joinpath("pyproject.toml").read_text())
release = _PYPROJECT["project"]["version"]
root_doc = "README"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_heading_anchors = 4
html_theme = "furo"
html_title = f"penstock {release}"
html_show_copyright = False
html_logo = "_static/penstock.svg"
html_favicon = "_static/penstock.svg"
html_static_path = ["_static"]
html_css_files = ["penstock.css"]
html_theme_options = {
    "light_css_variables": {
        "color-brand-primary": "#0b5cad",
        "color-brand-content": "#0b5cad",
    },
    "dark_css_variables": {
        "color-brand-primary": "#7cc4ff",
        "color-brand-content": "#7cc4ff",
    },
    "navigation_with_keys": True,
}
default_role = "code"
#: Links to files beside `docs` work where the repository is shown, and are text in the site; that
#: all links lead somewhere is tested.
#: `Expression` is a class of functions and one of tables.
suppress_warnings = ["myst.xref_missing", "ref.python"]
autodoc_default_options = {"members": True, "inherited-members": False, "show-inheritance": True}
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented_params"
napoleon_google_docstring = True
#: Attributes are members as well, which would describe them twice.
napoleon_use_ivar = True
add_module_names = False
toc_object_entries = False
#: Autodoc reads the names of Flink 1, each of which logs a warning.
logging.getLogger("penstock.flink_1").setLevel(logging.ERROR)


#: Pages whose folder holds their parts.
_PARTS = {
    "reference": "reference/*",
    "options": "options/*",
    "sql": "sql/*",
    "howto/README": "*",
    "tutorial/README": "*",
    "benchmarks/README": "*",
}


def _add_contents(app, name, source):
    """Order the pages as the links of the first page do, under its headings."""
    if name in _PARTS:
        source[0] += f"\n\n```{{toctree}}\n:hidden:\n:glob:\n\n{_PARTS[name]}\n```\n"
    if name == root_doc:
        for section in source[0].split("\n## ")[1:]:
            title, _, text = section.partition("\n")
            pages = dict.fromkeys(re.findall(r"\]\(([\w/-]+)\.md\)", text))
            source[0] += "\n".join(
                ["\n\n```{toctree}\n:hidden:", f":caption: {title}\n", *pages, "```\n"]
            )


def _leave_plain(app, name, source):
    """Highlight blocks without a language, which are commands and output, as text."""
    source[0] = re.sub(
        r"^```([^\n]*)\n(.*?)^```$",
        lambda fence: fence[0] if fence[1] else f"```text\n{fence[2]}```",
        source[0],
        flags=re.MULTILINE | re.DOTALL,
    )


@cache
def _homes():
    """Return the module whose page shows a class, by class.

    Of the modules that export it, this is the deepest one of the package that defines the class, or
    the deepest one at all.
    """
    exporting = defaultdict(list)
    for page in Path(__file__).with_name("reference").glob("*.md"):
        module = importlib.import_module(page.stem)
        for member in getattr(module, "__all__", vars(module)):
            value = getattr(module, member)
            if isinstance(value, type) and (
                hasattr(module, "__all__") or value.__module__ == page.stem
            ):
                exporting[value].append(page.stem)

    def order(value, name):
        is_elsewhere = value.__module__.split(".")[:2] != name.split(".")[:2]
        return is_elsewhere, -name.count("."), name

    return {
        value: min(names, key=lambda name: order(value, name)) for value, names in exporting.items()
    }


def _skip_elsewhere(app, what, name, member, skip, options):
    """Skip a class that the page of another module shows."""
    page = app.env.docname.rpartition("/")[2]
    if what == "module" and isinstance(member, type) and _homes().get(member, page) != page:
        return True
    return None


def _let_names_break(app, pagename, templatename, context, doctree):
    """Let long keys and constants in tables break after a dot or an underscore."""

    def breakable(word):
        return re.sub(r"(?<=\w)[._](?=\w)", r"\g<0><wbr>", word[0])

    def in_texts(cell):
        return re.sub(r">[^<]+", lambda text: re.sub(r"[\w.]{24,}", breakable, text[0]), cell[0])

    if "body" in context:
        context["body"] = re.sub(r"<td.*?</td>", in_texts, context["body"], flags=re.DOTALL)


def _copy_first_page(app, error):
    """Servers look for it under this name."""
    if error is None:
        shutil.copy(Path(app.outdir, f"{root_doc}.html"), Path(app.outdir, "index.html"))


def setup(app):
    """Called by Sphinx."""
    app.connect("source-read", _leave_plain)
    app.connect("source-read", _add_contents)
    app.connect("autodoc-skip-member", _skip_elsewhere)
    app.connect("html-page-context", _let_names_break)
    app.connect("build-finished", _copy_first_page)
