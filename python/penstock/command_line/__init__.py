"""The command ``penstock``: `main` has ``run``, the modules beside it the other commands.

| exit code | meaning |
|---|---|
| 0 | it was done |
| 1 | it was refused, or failed: there is no such job, no savepoint, something is missing |
| 2 | the command line is wrong |
| 3 | no cluster answers |
"""
