"""Amazon Kinesis Data Streams and Amazon Data Firehose."""
