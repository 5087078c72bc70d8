-- The example of compose.yaml: orders are generated into a topic of Kafka, and the totals of each
-- item are kept in another one.
SET 'execution.checkpointing.interval' = '1 s';

CREATE TABLE generated (item INT, amount INT) WITH (
  'connector' = 'datagen',
  'rows-per-second' = '100',
  'fields.item.min' = '1',
  'fields.item.max' = '5',
  'fields.amount.min' = '1',
  'fields.amount.max' = '9'
);

CREATE TABLE orders (item INT, amount INT) WITH (
  'connector' = 'kafka',
  'topic' = 'orders',
  'properties.bootstrap.servers' = 'kafka:9092',
  'properties.group.id' = 'shop',
  'scan.startup.mode' = 'earliest-offset',
  'format' = 'json'
);

CREATE TABLE totals (item INT, orders BIGINT, amount BIGINT, PRIMARY KEY (item) NOT ENFORCED)
WITH (
  'connector' = 'upsert-kafka',
  'topic' = 'totals',
  'properties.bootstrap.servers' = 'kafka:9092',
  'key.format' = 'json',
  'value.format' = 'json'
);

INSERT INTO orders SELECT item, amount FROM generated;

INSERT INTO totals SELECT item, COUNT(*), SUM(amount) FROM orders GROUP BY item;
