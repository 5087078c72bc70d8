"""The graphs of a program, as data: Transformations, StreamGraph, JobGraph, and their generators.

Nothing here runs a job or opens a socket.  `penstock.datastream` builds Transformations, the
generators lower them step by step, and `penstock.jobmaster` runs the JobGraph.
"""
