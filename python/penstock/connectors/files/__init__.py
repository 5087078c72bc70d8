"""Files as sources and sinks: their splits and readers, part files and their commits."""
