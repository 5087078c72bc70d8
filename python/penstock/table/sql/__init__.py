"""SQL as text: Flink's dialect on sqlglot's parser, and the statements that it gives."""
