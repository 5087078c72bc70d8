"""The options: each is declared once, in the module of its noun, and read through that object.

`registry` has all of them, `check` checks a configuration before anything starts, and `table`
writes the page ``docs/options.md`` and those in ``docs/options``.
"""
