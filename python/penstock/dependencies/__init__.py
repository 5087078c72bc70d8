"""Code and files of a program on their way to its workers.

`declarations` reads what a program asked for, `staging` takes a snapshot of it on the driver,
`worker_environment` builds from it what a worker runs in, inside a `job_folder`.
"""
