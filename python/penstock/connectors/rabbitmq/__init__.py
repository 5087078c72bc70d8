"""RabbitMQ: a source and a sink."""
