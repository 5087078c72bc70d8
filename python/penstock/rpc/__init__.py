"""Control-plane messages and their transport.

TaskExecutors and other peers connect to the driver's one port.  A peer proves that it holds the
job's token (``authentication``) before anything else is parsed; then length-limited frames
(``frames``) carry tagged MessagePack structs (``messages``).  Nothing here is unpickled.
"""
