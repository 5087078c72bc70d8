"""The SQL shell: statements that are typed, or in scripts and cells of notebooks."""
