"""Tables of Apache Iceberg: a source and a sink."""
