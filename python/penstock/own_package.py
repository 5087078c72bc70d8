"""Fails at import if files of another distribution have replaced those of this package.

The distribution ``penstock`` on PyPI is another project, whose package has the same name: pip
installs both into one folder, and the later ``__init__.py`` stays.
"""

import penstock

if getattr(penstock, "__distribution__", None) != "penstock-engine":
    raise ImportError(
        f"{penstock.__file__} is not that of penstock-engine: the distribution penstock, which is "
        "another project's, has replaced it. Install this one again: pip uninstall penstock "
        "penstock-engine, then pip install penstock-engine"
    )
