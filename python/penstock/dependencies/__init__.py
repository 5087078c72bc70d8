"""Code and files of a program, shipped to its workers.

`declarations` reads the program's declarations, `staging` takes a snapshot of the files on the
driver, `worker_environment` builds a worker's environment from it, inside a `job_folder`.
"""
