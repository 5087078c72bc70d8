"""The command ``penstock``: `main` has ``run``, the modules beside it the other commands.

| exit code | meaning |
|---|---|
| 0 | the command has succeeded |
| 1 | the command was rejected, or failed: no such job or savepoint, something is missing |
| 2 | the command line is invalid |
| 3 | no cluster answers |
"""

import penstock.own_package  # noqa: F401  fails if another project has replaced this package
