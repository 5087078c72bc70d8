"""Small programs for tests on Spark: ``python programs.py NAME MASTER [ARGUMENT]``."""

import base64
import collections
import contextlib
import logging
import os
import queue
import signal
import sys
import time
from logging.handlers import QueueHandler
from pathlib import Path

import psutil
from penstock.common import Types, WatermarkStrategy
from penstock.datastream import MapFunction, RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.errors import (
    CheckpointError,
    NoResourceAvailableError,
    TaskExecutorLostError,
)
from spark_jobs import LIGHT_JVMS, endless, environment, touching
from successive_workers import Serving, executor_id, is_worker, parent_of

PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])


def collects(env, _):
    """Collect the results of a job, twice on one Spark."""
    for _ in range(2):
        stream = env.from_collection([1, 2, 3], Types.LONG())
        with stream.rebalance().map(lambda n: n * n, Types.LONG()).execute_and_collect() as found:
            print(sorted(found))


def runs_in_stages(env, _):
    """Run a job in BATCH mode whose steps use the same two slots in different groups."""
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    summed = (
        env.from_collection(list(range(100)), Types.LONG())
        .rebalance()
        .map(lambda n: (n % 3, n), PAIR)
        .key_by(lambda one: one[0], Types.LONG())
        .reduce(lambda one, other: (one[0], one[1] + other[1]))
        .slot_sharing_group("sums")
    )
    with summed.execute_and_collect() as found:
        print(sorted(found))
    env.set_runtime_mode(RuntimeExecutionMode.STREAMING)


def computes_with_batches(env, _):
    """Call functions with batches of keys and of windows, and aggregate columns."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from penstock import aggregates as agg
    from penstock.common import Time
    from penstock.datastream.window import TumblingEventTimeWindows
    from penstock.expressions import as_tuple, field

    def halves(batch):
        even = batch.filter(pc.equal(pc.bit_wise_and(batch["n"], 1), 0))
        return pa.record_batch({"n": pc.divide(even["n"], 2)})

    def total(batch):
        return pa.record_batch({"n": [pc.sum(batch["n"]).as_py()]})

    number = Types.ROW_NAMED(["n"], [Types.LONG()])
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(field("n"))
    numbers = env.from_arrow(pa.table({"n": range(3000)})).assign_timestamps_and_watermarks(
        strategy
    )
    keyed = numbers.rebalance().key_by(field("n") % 3)
    windows = keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(1000)))
    streams = [
        keyed.map_batches(halves, number),
        windows.apply_batches(total, number),
        windows.aggregate({"n": agg.sum("n")}),
    ]
    pairs = [stream.map(as_tuple(kind, field("n")), PAIR) for kind, stream in enumerate(streams)]
    sums = collections.defaultdict(list)
    with pairs[0].union(*pairs[1:]).execute_and_collect() as found:
        for kind, one in found:
            sums[kind].append(one)
    print(sorted(sums[0]) == list(range(1500)), sorted(sums[1]), sorted(sums[2]))


def joins_and_ranks_batches(env, _):
    """Join and rank batches of columns, and print how many batches each operator had."""
    import pyarrow as pa
    from penstock.common import Configuration
    from penstock.expressions import argument, as_tuple, field

    env.configure(Configuration().set_string("penstock.metrics.reported-at-end", "true"))
    # A source emits batches to one operator.
    left, right, ranked, deduplicated = (
        env.from_arrow(pa.table({"n": range(3000)})) for _ in range(4)
    )
    joined = left.join(right).where(field("n") % 1000).equal_to(field("n"))
    keyed = ranked.key_by(field("n") % 3)
    streams = [
        joined.apply(as_tuple(argument(0)["n"], argument(1)["n"]), output_type=PAIR),
        keyed.top_n(2, "n", results="final").map(as_tuple(-1, field("n")), PAIR),
        deduplicated.key_by("n").deduplicate().map(as_tuple(-2, field("n")), PAIR),
    ]
    with streams[0].union(*streams[1:]).execute_and_collect() as found:
        print(sorted(found))
        totals = found.get_job_client().handle.operator_totals()
    for (_, name), counts in sorted(totals.items()):
        if name in ("Join", "TopN", "Deduplicate"):
            print(name, counts["numBatchesInColumns"] > 0, counts["numBatchesGivenUp"])


def exchanges_frames(env, folder):
    """Turn DataFrames into streams and streams into DataFrames, without a row in the driver."""
    import datetime
    import decimal

    from penstock.common import Row
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.master("local[2]").getOrCreate()
    numbers = spark.range(0, 1000, 1, 3).selectExpr("id AS n", "CAST(id AS STRING) AS text")
    doubled = env.from_spark(numbers).map(
        lambda row: Row(n=row.n * 2, text=row.text),
        Types.ROW_NAMED(["n", "text"], [Types.LONG(), Types.STRING()]),
    )
    found = doubled.to_spark(spark)
    print(found.schema.simpleString(), found.selectExpr("sum(n)", "count(text)").first()[:])
    of_all_types = spark.sql(
        "SELECT CAST(1 AS TINYINT) AS a, CAST(1.5 AS FLOAT) AS b, CAST(2.25 AS DECIMAL(9, 2)) AS c,"
        " DATE'2024-05-06' AS d, TIMESTAMP_NTZ'2024-05-06 07:08:09' AS e, ARRAY(1, NULL) AS f,"
        " MAP('k', 1L) AS g, NAMED_STRUCT('h', TRUE) AS i, X'00FF' AS j, CAST(NULL AS INT) AS k,"
        " TIMESTAMP'2024-05-06 07:08:09Z' AS l"
    )
    stream = env.from_spark(of_all_types, str(Path(folder, "all")))
    with stream.execute_and_collect() as rows:
        (row,) = rows
    assert row == Row(
        a=1,
        b=1.5,
        c=decimal.Decimal("2.25"),
        d=datetime.date(2024, 5, 6),
        e=datetime.datetime(2024, 5, 6, 7, 8, 9),
        f=[1, None],
        g={"k": 1},
        i=Row(h=True),
        j=[0, -1],
        k=None,
        l=datetime.datetime(2024, 5, 6, 7, 8, 9, tzinfo=datetime.UTC),
    ), row
    empty = env.from_spark(numbers.where("n < 0")).map(lambda row: row.n, Types.LONG())
    print(empty.to_spark(spark, str(Path(folder, "empty"))).collect())
    for refused in (
        lambda: env.from_spark([1]),
        lambda: env.from_spark(spark.sql("SELECT INTERVAL 1 DAY AS span")),
        lambda: stream.to_spark("spark"),
        lambda: endless(env).map(str).to_spark(spark),
    ):
        try:
            refused()
        except TypeError as error:
            print(str(error).splitlines()[0])


def exchanges_streams(env, folder):
    """Turn Spark's streams into streams and streams into Spark's, with each row once."""
    from penstock.common import Duration, Row, WatermarkStrategy
    from penstock.datastream.connectors.file_system import FileSink
    from penstock.datastream.formats.parquet import ParquetBulkWriters
    from penstock.spark.streams import read_batches, write_batches
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.master("local[2]").getOrCreate()
    given, batches = Path(folder, "given"), str(Path(folder, "batches"))
    spark.range(0, 1000, 1, 4).selectExpr("id AS n").write.json(str(given))
    frame = spark.readStream.schema("n LONG").option("maxFilesPerTrigger", 1).json(str(given))
    write = write_batches(batches)

    def write_twice(rows, batch_id):
        # As after the death of a driver whose query has not recorded the batch.
        write(rows, batch_id)
        write(rows, batch_id)

    query = frame.writeStream.foreachBatch(write_twice).trigger(availableNow=True)
    query.option("checkpointLocation", str(Path(folder, "query"))).start().awaitTermination()
    # As left by a driver that died before a batch was complete.
    spark.range(5000, 5010).selectExpr("id AS n").write.parquet(f"{batches}/.batch-torn")
    source = read_batches(frame.schema, batches, Duration.of_millis(100))
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "batches")
    found = []
    with stream.execute_and_collect() as rows:
        for row in rows:
            found.append(row.n)
            if len(found) == 1000:
                break
    print(len(list(Path(batches).glob("batch-*"))), sorted(found) == list(range(1000)))

    columns = Types.ROW_NAMED(["n"], [Types.LONG()])
    doubled = env.from_spark(spark.range(100).selectExpr("id AS n"))
    out = str(Path(folder, "out"))
    sink = FileSink.for_bulk_format(out, ParquetBulkWriters.for_row_type(columns)).build()
    doubled.map(lambda row: Row(n=row.n * 2), columns).sink_to(sink)
    env.execute()
    sums = []
    files = spark.readStream.schema("n LONG").option("recursiveFileLookup", "true").parquet(out)
    query = files.writeStream.foreachBatch(lambda rows, _: sums.append(rows.agg({"n": "sum"})))
    taken = query.trigger(availableNow=True).option("checkpointLocation", f"{folder}/taken")
    taken.start().awaitTermination()
    print([frame.first()[0] for frame in sums])
    for refused in (
        lambda: env.from_spark(frame),
        lambda: read_batches("n LONG", batches, Duration.of_millis(1)),
        lambda: write_batches(None),
    ):
        try:
            refused()
        except TypeError as error:
            print(str(error).splitlines()[0])


def goes_on_from_a_savepoint(env, folder):
    """Stop a job halfway, and read the rest by another one of other parallelism."""
    elements = 200_000

    def counts(env, pause_s):
        def slowly(number):
            time.sleep(pause_s)
            return number % 10

        source = NumberSequenceSource(0, elements - 1)
        numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("n")
        pairs = numbers.map(slowly, Types.LONG()).map(lambda key: (key, 1), PAIR)
        counted = pairs.key_by(lambda pair: pair[0], Types.LONG()).sum(1).uid("counts")
        return counted.execute_and_collect()

    last = {}
    with counts(env, 0.001) as results:
        while len(last) < 10:
            key, count = next(results)
            last[key] = count
        client = results.get_job_client()
        path = None
        while path is None:
            try:
                path = client.stop_with_savepoint(False, folder).result()
            except CheckpointError as error:
                if "not all tasks" not in str(error):
                    raise
        last |= dict(results)
    configuration = {"execution_state-recovery_path": path}
    env = environment("local[2]", **configuration)
    env.set_parallelism(1)
    first = None
    with counts(env, 0) as results:
        for key, count in results:
            first = first or count
            last[key] = count
    print(first > 1, last == dict.fromkeys(range(10), elements // 10))


def tells_processes(env, _):
    """Print how many of three subtasks each process runs."""

    class Where(MapFunction):
        def open(self, context):
            self.place = (os.getpid(), context.get_index_of_this_subtask())

        def map(self, _):
            return self.place

    env.set_parallelism(3)
    stream = env.from_source(
        NumberSequenceSource(1, 1_000), WatermarkStrategy.no_watermarks(), "numbers", Types.LONG()
    )
    with stream.rebalance().map(Where()).execute_and_collect() as found:
        processes = collections.Counter(process for process, _ in set(found))
    print(sorted(processes.values()))


def finds_the_session(_, __):
    """Run jobs in a process with a SparkSession, without naming a target."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = builder.config(map=LIGHT_JVMS).getOrCreate()
    env = StreamExecutionEnvironment.get_execution_environment()
    env.configure_option("spark.ui.enabled", "false").configure_option("spark.task.cpus", "2")
    stream = env.from_collection([0], Types.LONG())
    parent = stream.map(lambda _: Path(f"/proc/{os.getppid()}/cmdline").read_text())
    with parent.execute_and_collect() as found:
        print("pyspark.daemon" in next(found))
    print(session.range(3).count())
    session.stop()


def prints(env, _):
    """Print lines, which appear on the standard output of the driver."""
    numbers = env.from_collection(list(range(20_000)), Types.LONG())
    numbers.rebalance().map(lambda n: n, Types.LONG()).print()
    env.execute()
    print("executed")


def raises(env, _):
    """Raise a user's exception, which reaches the caller of execute() as itself."""

    def divide(number):
        return 1 // (number - 2)

    env.from_collection([1, 2, 3], Types.LONG()).map(divide, Types.LONG()).name("divide").print()
    try:
        env.execute()
    except ZeroDivisionError as error:
        print("caught", error, *error.__notes__, error.__cause__)


def exits(env, _):
    """Log in user code and call sys.exit()."""

    def leave(number):
        logging.getLogger("leaving").info("on my way out")
        sys.exit(0)

    env.configure_option("logging.level", "INFO").set_parallelism(1)
    env.from_collection([1], Types.LONG()).map(leave).name("leaver").print()
    env.execute()


def loses_a_worker(env, folder):
    """Kill a TaskExecutor, which fails the job."""
    marker = Path(folder, "killed")

    class Killer(MapFunction):
        def map(self, value):
            if value == 1_000 and not marker.exists():
                marker.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return value

    endless(env).map(Killer(), Types.LONG()).filter(lambda number: False).print()
    try:
        env.execute()
    except TaskExecutorLostError as error:
        print(error)


def runs_until_interrupted(env, folder):
    """Run a job that never ends by itself; report by a named pipe that it runs."""
    marker = Path(folder, "running")
    endless(env).map(touching(marker), Types.LONG()).filter(lambda number: False).print()
    env.execute()


def keeps_secrets(env, folder):
    """Check that no secret of a running job is in a file, nor was in a removed one."""
    from penstock.jobmaster import dispatcher
    from penstock.rpc import job_credentials

    secrets = set()

    def record(module, name, secret_of=lambda made: made):
        make = getattr(module, name)

        def recorded(*arguments):
            made = make(*arguments)
            secrets.add(secret_of(made))
            return made

        setattr(module, name, recorded)

    record(dispatcher, "new_token")
    record(dispatcher, "control_certificate", lambda made: made.private_key)
    record(job_credentials, "new_token")
    record(job_credentials, "derived_token")
    record(job_credentials, "new_job_certificate", lambda made: made.private_key)
    found, looked_at = [], []

    def look(path):
        looked_at.append(path)
        content = Path(path).read_bytes()
        found.extend(path for secret in secrets if any(t in content for t in traces(secret)))

    unlink = os.unlink

    def look_and_unlink(path, **options):
        if not options and os.path.isfile(path):
            look(path)
        unlink(path, **options)

    os.unlink = look_and_unlink
    marker = Path(folder, "running")
    os.mkfifo(marker)
    endless(env).map(touching(marker), Types.LONG()).filter(lambda number: False).print()
    client = env.execute_async()
    marker.read_text()
    import pyspark

    work = Path(pyspark.__file__).parent / "work" / pyspark.SparkContext.getOrCreate().applicationId
    for root in (Path(os.environ["TMPDIR"]), work):
        for inside, _, names in os.walk(root):
            for path in (Path(inside, name) for name in names):
                if path.is_file():
                    look(path)
    client.cancel().result()
    print(len(secrets), "secrets,", len(looked_at) > 0, found)


def traces(secret):
    """Return the forms of a secret in a file: its bytes, in hexadecimal and in base 64."""
    yield from (secret, secret.hex().encode(), secret.hex().upper().encode())
    for skipped in range(3):
        # If it starts within a group, it is found from the next group on.
        whole = secret[skipped : skipped + (len(secret) - skipped) // 3 * 3]
        yield from (base64.b64encode(whole), base64.urlsafe_b64encode(whole))


def loses_its_spark(env, folder):
    """Stop the SparkContext of a job that would restart for ever."""
    import pyspark

    marker = Path(folder, "running")
    os.mkfifo(marker)
    env.configure_option("restart-strategy.type", "fixed-delay")
    env.configure_option("restart-strategy.fixed-delay.attempts", "1000000")
    endless(env).map(touching(marker), Types.LONG()).filter(lambda number: False).print()
    client = env.execute_async()
    marker.read_text()
    pyspark.SparkContext._active_spark_context.stop()
    try:
        client.get_job_execution_result().result()
    except Exception as error:  # the test checks its class
        print(type(error).__name__, "is stopped" in str(error))
    with env.from_collection([1], Types.LONG()).execute_and_collect() as found:
        print(list(found))


def flees(env, folder):
    """One of three executors is excluded: a job continues elsewhere, the next one lacks a slot."""
    from pyspark import SparkContext

    serving = Serving(env, folder)
    store = SparkContext._active_spark_context._jsc.sc().statusStore()

    def excluded():
        found = store.executorList(False)
        executors = (found.apply(index) for index in range(found.length()))
        return [one.id() for one in executors if one.isExcluded()]

    serving.kill_host()
    # Spark excludes the place of a failed task once its retry has succeeded, which hosts no worker.
    # The retry runs on the third one: the job's new worker may be on the second one before it.
    while not excluded():
        time.sleep(0.02)
    if serving.executor in excluded():
        serving.kill_host()
    print(len(excluded()), "excluded, goes on elsewhere:", serving.executor not in excluded())
    workers = [p for p in psutil.Process().children(recursive=True) if is_worker(p)]
    print("workers:", len(workers))
    serving.end()
    env.set_parallelism(3)
    env.configure_option("restart-strategy.type", "none")
    env.configure_option("slot.request.timeout", "3 s")
    endless(env).filter(lambda number: False).print()
    try:
        env.execute()
    except NoResourceAvailableError as error:
        print(error)


def is_hosted_again(env, folder):
    """Let a worker die; its host on the one executor hosts the next worker."""
    serving = Serving(env, folder)
    host = parent_of(serving.worker)
    daemon = parent_of(host)
    serving.worker.kill()
    serving.next()
    print("by the same process:", parent_of(serving.worker) == host)
    print("forked from", daemon.cmdline()[2])
    serving.end()


def finds_executors_ready(env, folder):
    """An executor without tasks, and its replacement, get a process that forks Python workers.

    Otherwise the first task in Python would start that process.
    """
    from pyspark import SparkContext

    serving = Serving(env, folder)

    def idle_executor():
        for process in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                words = process.cmdline()
                is_executor = "--executor-id" in words and "--worker-url" in words
                if is_executor and executor_id(words) != serving.executor:
                    return process
        return None

    def await_daemon(executor):
        while True:
            if executor is not None:
                with contextlib.suppress(psutil.NoSuchProcess):
                    found = [words for p in executor.children() for words in p.cmdline()]
                    if "penstock.spark.python_daemon" in found:
                        return executor
            time.sleep(0.1)
            executor = idle_executor()

    first = await_daemon(None)
    print("ready")
    first.kill()
    second = await_daemon(None)
    print("ready again", first != second)
    serving.end()
    print(SparkContext._active_spark_context.statusTracker().getActiveJobsIds())


def is_given_up(env, folder):
    """Lose a stage that Spark gives up, here at once: spark.task.maxFailures is 1."""
    lost = queue.SimpleQueue()
    logger = logging.getLogger("penstock.jobmaster.dispatcher")
    logger.addHandler(QueueHandler(lost))
    serving = Serving(env, folder)
    serving.kill_host()
    print(lost.get().getMessage())
    print("goes on", serving.client.get_job_status().result().name)
    serving.end()


def cancels(env, folder):
    """Cancel a running job; its client notices."""
    marker = Path(folder, "running")
    os.mkfifo(marker)
    endless(env).map(touching(marker), Types.LONG()).filter(lambda number: False).print()
    client = env.execute_async()
    marker.read_text()
    client.cancel().result()
    try:
        client.get_job_execution_result().result()
    except Exception as error:  # the test checks its class
        print(type(error).__name__, client.get_job_status().result().name)


def is_watched(env, folder):
    """Watch a running job over the REST interface, and cancel it there."""
    import json
    import urllib.error
    import urllib.request

    from penstock.rest.run_files import running_clusters

    endless(env).map(lambda number: number, Types.LONG()).name("Same").disable_chaining().filter(
        lambda number: False
    ).print()
    client = env.execute_async()
    cluster = running_clusters()[-1]

    def ask(path, method="GET"):
        header = {"Authorization": f"Bearer {cluster.token}"}
        request = urllib.request.Request(f"{cluster.url}/v1{path}", None, header, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())

    path = f"/jobs/{client.get_job_id()}"
    records = 0
    while records == 0:
        vertices = {vertex["name"]: vertex for vertex in ask(path)["vertices"]}
        records = vertices["Same"]["metrics"]["read-records"]
    print(ask(f"{path}/status"), ask("/taskmanagers/metrics?get=Status.JVM.Threads.Count&agg=min"))
    try:
        ask(f"{path}/rescaling?parallelism=3", "PATCH")
    except urllib.error.HTTPError as error:
        print(json.loads(error.read())["errors"][0].partition(";")[0])
    while any(v["tasks"]["RUNNING"] < v["parallelism"] for v in ask(path)["vertices"]):
        time.sleep(0.1)
    trigger = ask(f"{path}/rescaling?parallelism=1", "PATCH")["request-id"]
    while ask(f"{path}/rescaling/{trigger}")["status"]["id"] != "COMPLETED":
        time.sleep(0.1)
    (same,) = (vertex for vertex in ask(path)["vertices"] if vertex["name"] == "Same")
    print(same["parallelism"], ask(f"{path}/rescaling/{trigger}")["operation"])
    ask(f"{path}?mode=cancel", "PATCH")
    try:
        client.get_job_execution_result().result()
    except Exception as error:
        print(type(error).__name__, running_clusters())


if __name__ == "__main__":
    names, master, argument, *options = sys.argv[1:]
    chosen = dict(option.split("=", 1) for option in options)
    for name in names.split("+"):
        if name != names:
            print("---", name)
        globals()[name](environment(master, **chosen), argument)
