"""Jobs that outlive their driver: who runs them, and what one driver leaves to the next."""
