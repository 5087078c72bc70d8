"""SQL as text: Flink's dialect on sqlglot's parser, and its statements."""
