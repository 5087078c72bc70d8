"""A Kafka broker of one node, for tests: a real one, in its own process."""

import base64
import os
import subprocess
import time
import uuid
from pathlib import Path

from support.certificates import own_certificate
from support.leftovers import without_mark
from support.patience import PATIENCE_S
from support.processes import DIES_WITH_ITS_PARENT
from support.reserved_ports import reserved_ports

JARS = Path(__file__).parents[3] / "build" / "kafka" / "jars"

_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:{sasl},\
SSL://127.0.0.1:{tls},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:{sasl},\
SSL://127.0.0.1:{tls}
ssl.keystore.type=PEM
ssl.keystore.location={certificate}
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512
listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config=\
org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config=\
org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.sasl_plaintext.plain.sasl.jaas.config=\
org.apache.kafka.common.security.plain.PlainLoginModule required user_ann="p w";
controller.listener.names=CONTROLLER
listener.security.protocol.map=\\
CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,SSL:SSL
log.dirs={folder}/data
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
num.partitions=1
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
allow.everyone.if.no.acl.found=true
log.retention.ms=-1
"""


class Broker:
    """A broker on ports that the kernel chose; it must always be stopped.

    At `sasl_servers` it accepts only the user "ann" with the password "p w", at `tls_servers`
    clients that trust its `certificate`.
    """

    def __init__(self, folder):
        self.folder = folder
        self.process = None
        self._format()

    @property
    def servers(self):
        return f"127.0.0.1:{self.port}"

    @property
    def sasl_servers(self):
        return f"127.0.0.1:{self.sasl_port}"

    @property
    def tls_servers(self):
        return f"127.0.0.1:{self.tls_port}"

    def start(self):
        """Start the broker, and wait until it answers."""
        with (self.folder / "log").open("a") as log:
            self.process = subprocess.Popen(
                [
                    *(*DIES_WITH_ITS_PARENT, *self._java(), "kafka.Kafka"),
                    str(self.folder / "server.properties"),
                ],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env=without_mark(),
            )
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        deadline = time.monotonic() + PATIENCE_S
        admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        while True:
            try:
                admin.list_topics(timeout=1)
                return self
            except KafkaException:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise AssertionError((self.folder / "log").read_text()[-3000:]) from None

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def _java(self):
        home = os.environ.get("JAVA_HOME")
        java = f"{home}/bin/java" if home else "java"
        level = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
        light = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        return [java, *light, level, "-cp", f"{JARS}/*"]

    def _format(self):
        self.port, self.sasl_port, self.tls_port, controller = reserved_ports(4)
        self.certificate = own_certificate(self.folder / "certificate.pem")
        properties = self.folder / "server.properties"
        properties.write_text(
            _PROPERTIES.format(
                port=self.port,
                sasl=self.sasl_port,
                tls=self.tls_port,
                certificate=self.certificate,
                controller=controller,
                folder=self.folder,
            )
        )
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        subprocess.run(
            [
                *self._java(),
                "kafka.tools.StorageTool",
                "format",
                f"--cluster-id={cluster}",  # which may begin with a dash
                "-c",
                str(properties),
                *("--add-scram", "SCRAM-SHA-256=[name=ann,password=p w]"),
                *("--add-scram", "SCRAM-SHA-512=[name=ann,password=p w]"),
            ],
            check=True,
        )


class Topics:
    """Operations on topics, as any other client would perform them."""

    def __init__(self, servers):
        from confluent_kafka.admin import AdminClient

        self.servers = servers
        self.admin = AdminClient({"bootstrap.servers": servers})

    def create(self, partitions=1, name=None):
        from confluent_kafka.admin import NewTopic

        name = name or f"topic-{uuid.uuid4().hex[:8]}"
        self.admin.create_topics([NewTopic(name, partitions, 1)])[name].result()
        return name

    def deny(self, name, *operations, kind="TOPIC"):
        """Deny everything but DESCRIBE on a topic from now on.

        Or on a consumer group, or a transactional id, by their kind.
        """
        from confluent_kafka.admin import (
            AclBinding,
            AclOperation,
            AclPermissionType,
            ResourcePatternType,
            ResourceType,
        )

        rules = [(AclOperation[operation], AclPermissionType.DENY) for operation in operations]
        # With any rule, operations that no rule allows are denied.
        rules.append((AclOperation.ALL, AclPermissionType.ALLOW))
        literal = ResourcePatternType.LITERAL
        bindings = [
            AclBinding(ResourceType[kind], name, literal, "User:*", "*", *rule) for rule in rules
        ]
        for created in self.admin.create_acls(bindings).values():
            created.result()

    def grow(self, name, partitions):
        from confluent_kafka.admin import NewPartitions

        self.admin.create_partitions([NewPartitions(name, partitions)])[name].result()

    def write(self, name, records, transactional_id=None, commit=True):
        """Write records: values, or dictionaries of the arguments of `Producer.produce`."""
        from confluent_kafka import Producer

        # Otherwise retries, while a partition has no leader yet, follow later records.
        settings = {"bootstrap.servers": self.servers, "enable.idempotence": True}
        if transactional_id is not None:
            settings["transactional.id"] = transactional_id
        producer = Producer(settings)
        if transactional_id is not None:
            producer.init_transactions()
            producer.begin_transaction()
        for record in records:
            if not isinstance(record, dict):
                record = {"value": record}
            producer.produce(name, **record)
        producer.flush()
        if transactional_id is not None:
            producer.commit_transaction() if commit else producer.abort_transaction()

    def read(self, name, isolation="read_committed"):
        """Return all records, by partition and offset."""
        from confluent_kafka import Consumer, KafkaError, TopicPartition

        consumer = Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": "reader",
                "isolation.level": isolation,
                "enable.partition.eof": True,
                "enable.auto.commit": False,
            }
        )
        count = len(self.admin.list_topics(name).topics[name].partitions)
        consumer.assign([TopicPartition(name, number, 0) for number in range(count)])
        found, ended = [], set()
        while len(ended) < count:
            message = consumer.poll(PATIENCE_S)
            assert message is not None, "the broker does not answer"
            if message.error() is None:
                found.append(message)
            else:
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                ended.add(message.partition())
        consumer.close()
        return found

    def values(self, name, isolation="read_committed"):
        return sorted(message.value() for message in self.read(name, isolation))

    def committed(self, name, group):
        from confluent_kafka import Consumer, TopicPartition

        count = len(self.admin.list_topics(name).topics[name].partitions)
        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": group})
        found = consumer.committed([TopicPartition(name, number) for number in range(count)])
        consumer.close()
        return [partition.offset for partition in found]
