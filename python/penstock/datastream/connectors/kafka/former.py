"""What Flink's Kafka connector had before sources and sinks of today, and has no more."""

from penstock.datastream.refused import refused_class

__all__ = ["FlinkKafkaConsumer", "FlinkKafkaProducer", "Semantic"]

FlinkKafkaConsumer = refused_class("FlinkKafkaConsumer", "use KafkaSource")
FlinkKafkaProducer = refused_class("FlinkKafkaProducer", "use KafkaSink")
Semantic = refused_class("Semantic", "use DeliveryGuarantee with KafkaSink")
