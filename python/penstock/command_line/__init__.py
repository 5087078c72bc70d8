"""The commands of ``penstock`` beside ``run``: what asks running clusters, and what this machine.

| exit code | meaning |
|---|---|
| 0 | it was done |
| 1 | it was refused, or failed: there is no such job, no savepoint, something is missing |
| 2 | the command line is wrong |
| 3 | no cluster answers |
"""
