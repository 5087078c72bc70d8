"""The driver's side of a job: scheduling, slots, failover, and the services around them.

The state machines (`scheduler`, `execution_graph`, `slot_pool`, `failover`, `restart_strategies`)
receive an event and the time and return actions; only the modules around them do I/O.
"""
