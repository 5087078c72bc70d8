"""How `make docs` makes a site of these pages and of the docstrings."""

import re
import shutil
from pathlib import Path

project = "penstock"
root_doc = "README"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_heading_anchors = 4
html_theme = "furo"
html_title = "penstock"
default_role = "code"
#: Links to files beside `docs` work where the repository is shown, and are text in the site; that
#: all links lead somewhere is tested.
#: `Expression` is a class of functions and one of tables.
suppress_warnings = ["myst.xref_missing", "ref.python"]
autodoc_default_options = {"members": True, "inherited-members": False, "show-inheritance": True}
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented_params"
napoleon_google_docstring = True
add_module_names = False
toc_object_entries = False


def _add_contents(app, name, source):
    """The order of the pages is that of the links on the first one."""
    if name == root_doc:
        pages = re.findall(r"\]\(([\w/]+)\.md\)", source[0])
        source[0] += "\n".join(
            ["\n\n```{toctree}\n:hidden:\n:glob:\n", *pages, "howto/*", "formats/*", "```\n"]
        )


_shown = set()


def _skip_shown(app, what, name, member, skip, options):
    """What several modules export is shown by the first one."""
    if what == "module" and isinstance(member, type):
        if member in _shown:
            return True
        _shown.add(member)
    return None


def _copy_first_page(app, error):
    """Servers look for it under this name."""
    if error is None:
        shutil.copy(Path(app.outdir, f"{root_doc}.html"), Path(app.outdir, "index.html"))


def setup(app):
    """Called by Sphinx."""
    app.connect("source-read", _add_contents)
    app.connect("autodoc-skip-member", _skip_shown)
    app.connect("build-finished", _copy_first_page)
