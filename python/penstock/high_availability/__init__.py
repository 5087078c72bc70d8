"""Jobs that outlive their driver: leader election, and records for the next driver."""
