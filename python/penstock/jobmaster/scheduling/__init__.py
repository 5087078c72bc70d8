"""The state machines of a job: its execution graph, scheduler, failover and restarts.

They receive an event and the time, and return actions; the JobMaster does the I/O.
"""
