"""Kinesis and Firehose with boto3, against moto's server on loopback."""

import datetime
import itertools

import boto3
import pytest
from botocore.exceptions import ClientError
from moto.server import ThreadedMotoServer
from penstock.common import SimpleStringSchema, Types
from penstock.connectors.kinesis.enumerator import ShardEnumerator
from penstock.connectors.kinesis.shards import ShardSplit
from penstock.datastream.connectors.kinesis import (
    FlinkKinesisConsumer,
    KinesisDeserializationSchema,
    KinesisFirehoseSink,
    KinesisShardAssigner,
    KinesisStreamsSink,
    PartitionKeyGenerator,
)
from penstock.errors import FormatError, PenstockError, SinkError, SourceError
from penstock.table import EnvironmentSettings, TableEnvironment
from penstock.table.exceptions import ValidationException
from support.environments import in_process
from support.patience import PATIENCE_S

TEXT = SimpleStringSchema()
CLIENT = "penstock.connectors.kinesis.client.AwsClientConfig.client"
KEYS = {
    "aws.region": "eu-west-1",
    "aws.credentials.provider": "BASIC",
    "aws.credentials.provider.basic.accesskeyid": "id",
    "aws.credentials.provider.basic.secretkey": "secret",
}


@pytest.fixture(scope="module")
def endpoint():
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def properties(endpoint):
    return {**KEYS, "aws.endpoint": endpoint, "flink.shard.getrecords.intervalmillis": "10"}


@pytest.fixture
def kinesis(endpoint):
    keys = {"aws_access_key_id": "id", "aws_secret_access_key": "secret"}
    client = boto3.client("kinesis", endpoint_url=endpoint, region_name="eu-west-1", **keys)
    yield client
    for name in client.list_streams()["StreamNames"]:
        client.delete_stream(StreamName=name)
    client.close()


class Assigner(KinesisShardAssigner):
    """Has no method that the source would call."""

    def assign(self, shard, parallelism):
        return 0


class Keys(PartitionKeyGenerator):
    """Has no method that the sink would call."""

    def apply(self, element):
        return element


def put(kinesis, texts):
    records = [{"Data": text.encode(), "PartitionKey": text} for text in texts]
    kinesis.put_records(StreamName="s", Records=records)


def shards(kinesis):
    return kinesis.list_shards(StreamName="s")["Shards"]


def texts_in(kinesis):
    """Return the texts of each shard, and the partition keys of all."""
    found, keys = [], []
    for shard in shards(kinesis):
        kind = {"ShardIteratorType": "TRIM_HORIZON"}
        iterator = kinesis.get_shard_iterator(StreamName="s", ShardId=shard["ShardId"], **kind)
        records = kinesis.get_records(ShardIterator=iterator["ShardIterator"])["Records"]
        found.append([record["Data"].decode() for record in records])
        keys += [record["PartitionKey"] for record in records]
    return found, keys


# ---- the sinks --------------------------------------------------------------------------------


def sink(properties):
    builder = KinesisStreamsSink.builder().set_kinesis_client_properties(properties)
    return builder.set_stream_name("s").set_serialization_schema(TEXT)


class Subtask:
    def get_index_of_subtask(self):
        return 3


def write(made, *records):
    """Write records in this thread."""
    writer = made.create_writer(Subtask())
    try:
        for record in records:
            writer.write(record, None)
        writer.flush(False)
    finally:
        writer.close()
    return writer


def test_records_in_batches(kinesis, properties):
    kinesis.create_stream(StreamName="s", ShardCount=2)
    env = in_process()
    texts = [f"é{n}" for n in range(1200)]
    made = sink(properties).set_partition_key_generator(PartitionKeyGenerator.of(str)).build()
    env.from_collection(texts, Types.STRING()).sink_to(made)
    env.execute()
    found, keys = texts_in(kinesis)
    assert all(len(each) > 300 for each in found)
    assert sorted(itertools.chain(*found)) == sorted(texts) == sorted(keys)


def test_partition_keys(kinesis, properties):
    kinesis.create_stream(StreamName="s", ShardCount=1)
    fixed, random = PartitionKeyGenerator.fixed(), PartitionKeyGenerator.random()
    for generator in (fixed, random):
        write(sink(properties).set_partition_key_generator(generator).build(), "a", "b")
    _, keys = texts_in(kinesis)
    assert keys[:2] == ["3", "3"]
    assert len(set(keys)) == 3


class Rejecting:
    """A client that rejects some records, a given number of times."""

    def __init__(self, times):
        self.times, self.requests = times, []

    def put_records(self, Records, StreamName):
        self.requests.append([each["Data"] for each in Records])
        self.times -= 1
        busy = {"ErrorCode": "ProvisionedThroughputExceededException", "ErrorMessage": "slow"}
        return {"Records": [busy if i % 2 and self.times >= 0 else {} for i in range(len(Records))]}

    def close(self):
        pass


@pytest.mark.parametrize("fails", [False, True])
def test_rejected_records_are_sent_again_or_fail_the_job(properties, fails, monkeypatch):
    client = Rejecting(times=1)
    monkeypatch.setattr(CLIENT, lambda *_: client)
    made = sink(properties).set_fail_on_error(fails).build()
    if fails:
        with pytest.raises(SinkError, match=r"did not accept 1 of 3 .*ProvisionedThrough.*: slow"):
            write(made, "a", "b", "c")
        return
    write(made, "a", "b", "c")
    assert client.requests == [[b"a", b"b", b"c"], [b"b"]]


def test_a_stream_that_does_not_exist_fails_the_job(kinesis, properties):
    with pytest.raises(SinkError, match=r"kinesis stream s rejects 1 records: .*ResourceNotFound"):
        write(sink(properties).build(), "a")


def test_a_record_that_is_too_large_is_an_error(kinesis, properties):
    kinesis.create_stream(StreamName="s", ShardCount=1)
    with pytest.raises(FormatError, match="a record has 3 bytes, more than the 2"):
        write(sink(properties).set_max_record_size_in_bytes(2).build(), "aaa")


def test_records_into_firehose(endpoint, properties):
    keys = {"aws_access_key_id": "id", "aws_secret_access_key": "secret"}
    place = {"endpoint_url": endpoint, "region_name": "eu-west-1", **keys}
    s3 = boto3.client("s3", **place)
    region = {"LocationConstraint": "eu-west-1"}
    s3.create_bucket(Bucket="delivered", CreateBucketConfiguration=region)
    firehose = boto3.client("firehose", **place)
    role, bucket = "arn:aws:iam::123456789012:role/r", "arn:aws:s3:::delivered"
    firehose.create_delivery_stream(
        DeliveryStreamName="d",
        ExtendedS3DestinationConfiguration={"RoleARN": role, "BucketARN": bucket},
    )
    builder = KinesisFirehoseSink.builder().set_firehose_client_properties(properties)
    builder.set_delivery_stream_name("d").set_serialization_schema(TEXT).set_max_batch_size(2)
    write(builder.build(), "a", "b", "c")
    keys = [each["Key"] for each in s3.list_objects_v2(Bucket="delivered")["Contents"]]
    found = [s3.get_object(Bucket="delivered", Key=key)["Body"].read() for key in keys]
    assert sorted(found) == [b"ab", b"c"]
    s3.close()
    firehose.close()


# ---- the source -------------------------------------------------------------------------------


def source(properties, deserializer=TEXT, **more):
    given = {key.replace("__", "."): value for key, value in more.items()}
    given = {"flink.stream.initpos": "TRIM_HORIZON", **properties, **given}
    return FlinkKinesisConsumer("s", deserializer, given)


def test_records_become_elements_also_of_shards_that_are_split_and_merged(kinesis, properties):
    kinesis.create_stream(StreamName="s", ShardCount=2)
    put(kinesis, [f"a{n}" for n in range(50)])
    env = in_process()
    env.enable_checkpointing(20)
    more = {"flink__shard__discovery__intervalmillis": "50"}
    stream = env.add_source(source(properties, **more), "s", Types.STRING())
    with stream.execute_and_collect() as rows:
        found = set(itertools.islice(rows, 50))
        first = shards(kinesis)[0]
        keys = first["HashKeyRange"]
        middle = (int(keys["StartingHashKey"]) + int(keys["EndingHashKey"])) // 2
        kinesis.split_shard(
            StreamName="s", ShardToSplit=first["ShardId"], NewStartingHashKey=str(middle)
        )
        put(kinesis, [f"b{n}" for n in range(50)])
        found |= set(itertools.islice(rows, 50))
        ranges = {int(s["HashKeyRange"]["StartingHashKey"]): s["ShardId"] for s in shards(kinesis)}
        *_, lower, upper = [ranges[start] for start in sorted(ranges)]
        kinesis.merge_shards(StreamName="s", ShardToMerge=lower, AdjacentShardToMerge=upper)
        put(kinesis, [f"c{n}" for n in range(50)])
        while len(found) < 150:  # moto copies the records of merged shards into the new one
            found.add(next(rows))
    assert found == {f"{letter}{n}" for letter in "abc" for n in range(50)}


class Output:
    def __init__(self):
        self.elements, self.timestamps, self.released = [], [], []

    def create_output_for_split(self, split_id):
        return self

    def collect(self, element, timestamp):
        self.elements.append(element)
        self.timestamps.append(timestamp)

    def release_output_for_split(self, split_id):
        self.released.append(split_id)


class Context:
    """Calls at once, and stores the assignments."""

    def __init__(self, parallelism=1):
        self.assigned, self.parallelism = {}, parallelism

    def call_async(self, call, handler, initial_delay_ms, period_ms):
        self.look = lambda: handler(call(), None)
        self.look()

    def current_parallelism(self):
        return self.parallelism

    def registered_readers(self):
        return dict.fromkeys(range(self.parallelism))

    def assign_splits(self, assignment):
        for subtask, splits in assignment.items():
            self.assigned.setdefault(subtask, []).extend(splits)


@pytest.fixture
def opened():
    """Close readers and enumerators at the end."""
    made = []
    yield made
    for each in made:
        each.close()


def read(reader, splits, holds):
    """Read splits until a condition holds; return the output."""
    output = Output()
    reader.add_splits(splits)
    while not holds(output):
        reader.is_available().result(PATIENCE_S)
        reader.poll_next(output)
    return output


def test_a_checkpoint_holds_positions_and_known_shards(kinesis, properties, opened):
    kinesis.create_stream(StreamName="s", ShardCount=1)
    put(kinesis, [f"a{n}" for n in range(250)])
    made, context = source(properties)._as_source(), Context()
    enumerator = made.create_enumerator(context)
    enumerator.start()
    first = made.create_reader(None)
    opened += [enumerator, first]
    before = read(first, context.assigned[0], lambda output: len(output.elements) >= 90)
    positions, known = first.snapshot_state(1), enumerator.snapshot_state(1)
    put(kinesis, ["last"])
    another = Context()
    restored, second = made.restore_enumerator(another, known), made.create_reader(None)
    opened += [restored, second]
    restored.start()
    assert another.assigned == {}
    after = read(second, positions, lambda output: "last" in output.elements)
    assert before.elements + after.elements == [*(f"a{n}" for n in range(250)), "last"]
    assert all(timestamp > 1_600_000_000_000 for timestamp in after.timestamps)


class Closed:
    """A client of a closed shard; moto's iterators never end."""

    def __init__(self, *pages):
        self.pages = list(pages)

    def get_shard_iterator(self, **request):
        assert request["ShardIteratorType"] == "TRIM_HORIZON"
        return {"ShardIterator": "next"}

    def get_records(self, ShardIterator, Limit):
        moment = datetime.datetime(2024, 5, 6, tzinfo=datetime.UTC)
        records = [
            {
                "Data": text.encode(),
                "SequenceNumber": text,
                "ApproximateArrivalTimestamp": moment,
            }
            for text in self.pages.pop(0)
        ]
        return {"Records": records, **({"NextShardIterator": "next"} if self.pages else {})}

    def close(self):
        pass


def test_a_closed_shard_ends(properties, opened, monkeypatch):
    monkeypatch.setattr(CLIENT, lambda *_: Closed(["a"], ["b", "c"]))
    reader = source(properties)._as_source().create_reader(None)
    opened.append(reader)
    output = read(reader, [ShardSplit("s", "x")], lambda output: output.released)
    assert (output.elements, output.released) == (["a", "b", "c"], ["s/x"])
    assert reader.snapshot_state(1) == []


@pytest.mark.parametrize(
    "code", ["ExpiredIteratorException", "ProvisionedThroughputExceededException"]
)
def test_a_shard_continues_after_its_last_record_when_a_request_fails(
    code, properties, opened, monkeypatch
):
    """An iterator that expired, or a throttled request, costs no record and repeats none."""
    asked = []

    class Failing(Closed):
        def get_shard_iterator(self, **request):
            asked.append(request.get("StartingSequenceNumber", request["ShardIteratorType"]))
            return {"ShardIterator": "next"}

        def get_records(self, **request):
            if self.pages[0] is None:
                self.pages.pop(0)
                raise ClientError({"Error": {"Code": code, "Message": "slow"}}, "GetRecords")
            return super().get_records(**request)

    monkeypatch.setattr(CLIENT, lambda *_: Failing(["a"], None, ["b"]))
    reader = source(properties)._as_source().create_reader(None)
    opened.append(reader)
    output = read(reader, [ShardSplit("s", "x")], lambda output: output.released)
    assert output.elements == ["a", "b"]
    assert asked == ["TRIM_HORIZON", "a"]


def test_a_new_job_starts_with_new_records(kinesis, properties, opened):
    kinesis.create_stream(StreamName="s", ShardCount=1)
    context = Context()
    position = {"flink__stream__initpos": "LATEST"}
    enumerator = source(properties, **position)._as_source().create_enumerator(context)
    opened.append(enumerator)
    enumerator.start()
    (split,) = context.assigned[0]
    # A time, so that a job that fails before the first record does not skip records.
    assert split.start_ms is not None
    shard = shards(kinesis)[0]
    middle = str(int(shard["HashKeyRange"]["EndingHashKey"]) // 2)
    kinesis.split_shard(StreamName="s", ShardToSplit=shard["ShardId"], NewStartingHashKey=middle)
    context.look()
    assert [split.start_ms for split in context.assigned[0][1:]] == [None, None]


def test_records_of_paused_shards_wait(kinesis, properties, opened):
    kinesis.create_stream(StreamName="s", ShardCount=1)
    put(kinesis, ["a", "b"])
    reader = source(properties)._as_source().create_reader(None)
    opened.append(reader)
    split = ShardSplit("s", shards(kinesis)[0]["ShardId"])
    reader.add_splits([split])
    reader.is_available().result(PATIENCE_S)
    reader.pause_or_resume_splits([split.split_id()], [])
    output = Output()
    reader.poll_next(output)
    assert output.elements == []
    assert reader.snapshot_state(1)[0].sequence_number is None
    reader.pause_or_resume_splits([], [split.split_id()])
    reader.poll_next(output)
    assert output.elements == ["a", "b"]


def test_a_paused_shard_keeps_the_order_of_its_records(properties, opened, monkeypatch):
    texts = [f"{n:03}" for n in range(350)]
    monkeypatch.setattr(CLIENT, lambda *_: Closed(texts))
    reader, output = source(properties)._as_source().create_reader(None), Output()
    opened.append(reader)
    reader.add_splits([ShardSplit("s", "x")])
    reader.is_available().result(PATIENCE_S)
    reader.poll_next(output)
    reader.pause_or_resume_splits(["s/x"], [])
    reader.poll_next(output)
    reader.pause_or_resume_splits([], ["s/x"])
    reader.poll_next(output)
    assert reader.snapshot_state(1)[0].sequence_number == output.elements[-1]
    while not output.released:
        reader.poll_next(output)
    assert output.elements == texts


def test_a_function_sees_the_whole_record(kinesis, properties, opened):
    kinesis.create_stream(StreamName="s", ShardCount=1)
    put(kinesis, ["a", "b"])
    schema = KinesisDeserializationSchema.of(
        lambda record: record["PartitionKey"] if record["Data"] != b"b" else None, Types.STRING()
    )
    reader = source(properties, schema)._as_source().create_reader(None)
    opened.append(reader)
    split = ShardSplit("s", shards(kinesis)[0]["ShardId"])
    output = read(reader, [split], lambda _: reader.snapshot_state(1)[0].sequence_number)
    while output.elements != ["a"]:
        reader.poll_next(output)


def test_shards_are_assigned_by_their_hash_keys_or_a_function():
    half = 1 << 127
    splits = [ShardSplit("s", "0", 0, half - 1), ShardSplit("s", "1", half, 2 * half - 1)]
    uniform = KinesisShardAssigner.uniform_shard_assigner()
    assert [uniform.subtask_of(split, 4) for split in splits] == [0, 2]
    by_function = KinesisShardAssigner.of(lambda shard, parallelism: int(shard.shard_id) + 4)
    assert [by_function.subtask_of(split, 4) for split in splits] == [0, 1]
    default = KinesisShardAssigner.default_shard_assigner()
    assert all(0 <= default.subtask_of(split, 3) < 3 for split in splits)


def test_a_stream_that_cannot_be_read_fails_the_job(kinesis, properties, opened):
    made = source(properties)._as_source()
    reader = made.create_reader(None)
    opened.append(reader)
    with pytest.raises(SourceError, match="cannot read shard s/x of Kinesis"):
        read(reader, [ShardSplit("s", "x")], lambda _: False)
    enumerator = ShardEnumerator(made._streams, Context())
    with pytest.raises(SourceError, match="cannot list shards: ResourceNotFound"):
        enumerator._add(None, RuntimeError("ResourceNotFound"))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: FlinkKinesisConsumer([], TEXT, KEYS), "streams are names"),
        (lambda: FlinkKinesisConsumer("s", 5, KEYS), "takes a DeserializationSchema"),
        (lambda: FlinkKinesisConsumer("s", TEXT, {}), "needs the property 'aws.region'"),
        (lambda: FlinkKinesisConsumer("s", TEXT, {"a": 5}), "dictionary of strings"),
        (lambda: source(KEYS, flink__stream__initpos="FIRST"), "LATEST, TRIM_HORIZON, AT_TIME"),
        (lambda: source(KEYS, flink__stream__initpos="AT_TIMESTAMP"), "must be a time such as"),
        (lambda: source(KEYS, flink__stream__efo="x"), "unknown property 'flink.stream.efo'"),
        (lambda: source(KEYS, flink__shard__getrecords__maxrecordcount="0"), "at least 1, got '0'"),
        (lambda: source({**KEYS, "aws.credentials.provider": "STS"}), "AUTO, BASIC, ENV_VAR"),
        (lambda: source({"aws.region": "a", "aws.credentials.provider": "basic"}), "'BASIC' needs"),
        (lambda: source(KEYS).set_shard_assigner(5), "takes KinesisShardAssigner.of"),
        (lambda: source(KEYS).set_shard_assigner(Assigner()), "takes KinesisShardAssigner.of"),
        (lambda: source(KEYS).set_watermark_tracker(5), "with_watermark_alignment"),
        (lambda: KinesisStreamsSink.builder().build(), "set a schema before"),
        (lambda: sink(KEYS).set_stream_name("").build(), "set the name of a stream before"),
        (lambda: sink(KEYS).set_max_batch_size(501), "must be from 1 to 500, got 501"),
        (lambda: sink(KEYS).set_partition_key_generator(5), "takes PartitionKeyGenerator.of"),
        (lambda: sink(KEYS).set_partition_key_generator(Keys()), "takes PartitionKeyGenerator.of"),
        (lambda: KinesisFirehoseSink().create_writer(None), "use KinesisFirehoseSink.builder"),
    ],
)
def test_wrong_settings_are_errors(make, words):
    with pytest.raises(PenstockError, match=words):
        make()


def test_a_time_is_read():
    position = {"flink__stream__initpos": "AT_TIMESTAMP"}
    for given in ("1714979289.5", "2024-05-06T07:08:09.5+00:00", "2024-05-06T07:08:09.5"):
        made = source(KEYS, **position, flink__stream__initpos__timestamp=given)
        assert made._streams.position.start_ms(0) == 1_714_979_289_500


# ---- tables -----------------------------------------------------------------------------------


@pytest.fixture
def tables(monkeypatch):
    monkeypatch.setenv("PENSTOCK_EXECUTION_TARGET", "in-process")
    made = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    made.get_config().set("parallelism.default", "1")
    return made


def declare(tables, columns, options):
    pairs = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
    tables.execute_sql(f"CREATE TABLE t {columns} WITH ('connector' = 'kinesis', {pairs})")


def test_a_table_is_written_and_read(kinesis, endpoint, tables):
    kinesis.create_stream(StreamName="s", ShardCount=1)
    arn = kinesis.describe_stream_summary(StreamName="s")["StreamDescriptionSummary"]["StreamARN"]
    keys = {key: value for key, value in KEYS.items() if "credentials" in key}
    declare(
        tables,
        "(a INT, b STRING, k STRING METADATA FROM 'partition-key' VIRTUAL, "
        "m TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL) PARTITIONED BY (b, a)",
        {
            **keys,
            "aws.endpoint": endpoint,
            "stream.arn": arn,
            "source.init.position": "TRIM_HORIZON",
            "source.shard.assigner": "uniform",
            "sink.partitioner-field-delimiter": "$",
            "format": "json",
        },
    )
    tables.execute_sql("INSERT INTO t VALUES (1, 'x'), (2, 'y')").wait()
    assert texts_in(kinesis)[0] == [['{"a":1,"b":"x"}', '{"a":2,"b":"y"}']]
    with tables.execute_sql(
        "SELECT a, b, k, m > TIMESTAMP '2024-01-01 00:00:00' FROM t"
    ).collect() as rows:
        found = [tuple(row) for row in itertools.islice(rows, 2)]
    assert found == [(1, "x", "x$1", True), (2, "y", "y$2", True)]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "one of the options 'stream.arn' and 'stream'"),
        ({"stream": "s"}, "needs the property 'aws.region'"),
        ({"stream": "s", "source.init.position": "FIRST"}, "LATEST, TRIM_HORIZON"),
        ({"stream": "s", "scan.efo": "x"}, "Unsupported options .*scan.efo"),
    ],
)
def test_wrong_options_of_a_table_are_errors(tables, options, words):
    declare(tables, "(n INT)", {"format": "json", **options})
    with pytest.raises(ValidationException, match=words):
        tables.execute_sql("SELECT * FROM t")
