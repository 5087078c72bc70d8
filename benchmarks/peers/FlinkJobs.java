import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.time.Instant;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.regex.Pattern;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.common.functions.FlatMapFunction;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.sink2.Sink;
import org.apache.flink.api.connector.sink2.SinkWriter;
import org.apache.flink.api.connector.sink2.WriterInitContext;
import org.apache.flink.api.connector.source.lib.NumberSequenceSource;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.connector.file.src.FileSource;
import org.apache.flink.connector.file.src.reader.TextLineInputFormat;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.flink.util.Collector;

/**
 * The workloads W1 to W4 on Flink's DataStream API in Java, with object reuse.
 *
 * <p>The same jobs as {@code flink_jobs.py}; parameters and marks are those of {@code harness.py}.
 * The last mark is that of the sinks' ends, so that the end of Flink's cluster is not counted.
 */
public final class FlinkJobs {
    private static final AtomicBoolean BEGUN = new AtomicBoolean();

    private FlinkJobs() {}

    public static void main(String[] arguments) throws Exception {
        JsonNode bench = parameters();
        StreamExecutionEnvironment env =
                StreamExecutionEnvironment.createLocalEnvironment(bench.get("parallelism").asInt());
        env.getConfig().enableObjectReuse();
        String workload = bench.get("workload").asText();
        DataStream<?> result =
                switch (workload) {
                    case "W1" -> wordCount(env, bench.get("text").asText());
                    case "W2" ->
                            pairs(env, bench)
                                    .keyBy(pair -> pair.f0)
                                    .reduce((left, right) -> Tuple2.of(left.f0, left.f1 + right.f1));
                    case "W2-built-in" -> pairs(env, bench).keyBy(pair -> pair.f0).sum(1);
                    case "W3" -> stateless(env, bench);
                    case "W4" -> windowedCount(env, bench);
                    default -> throw new IllegalArgumentException("no workload " + workload);
                };
        result.sinkTo(new Discard<>());
        env.execute(workload);
    }

    private static JsonNode parameters() throws IOException {
        return new ObjectMapper().readTree(System.getenv("BENCH"));
    }

    private static synchronized void mark(String name) {
        Instant now = Instant.now();
        long nanoseconds = now.getEpochSecond() * 1_000_000_000L + now.getNano();
        String line = "{\"" + name + "\": " + nanoseconds + "}\n";
        try {
            Files.writeString(
                    Path.of(parameters().get("marks").asText()),
                    line,
                    StandardCharsets.UTF_8,
                    StandardOpenOption.APPEND);
        } catch (IOException error) {
            throw new IllegalStateException("the mark cannot be written", error);
        }
    }

    private static void begin() {
        if (!BEGUN.get() && BEGUN.compareAndSet(false, true)) {
            mark("first");
        }
    }

    private static DataStream<Long> numbers(StreamExecutionEnvironment env, JsonNode bench) {
        return env.fromSource(
                new NumberSequenceSource(0, bench.get("n").asLong() - 1),
                WatermarkStrategy.noWatermarks(),
                "numbers");
    }

    private static DataStream<Tuple2<Long, Long>> pairs(
            StreamExecutionEnvironment env, JsonNode bench) {
        return numbers(env, bench)
                .map(
                        number -> {
                            begin();
                            return Tuple2.of(number % 10_000, number);
                        })
                .returns(Types.TUPLE(Types.LONG, Types.LONG));
    }

    private static DataStream<?> wordCount(StreamExecutionEnvironment env, String folder) {
        FileSource<String> source =
                FileSource.forRecordStreamFormat(
                                new TextLineInputFormat(),
                                new org.apache.flink.core.fs.Path(folder))
                        .build();
        return env.fromSource(source, WatermarkStrategy.noWatermarks(), "text")
                .flatMap(new Words())
                .keyBy(pair -> pair.f0)
                .sum(1);
    }

    private static DataStream<?> stateless(StreamExecutionEnvironment env, JsonNode bench) {
        MapFunction<Long, Long> next = number -> number + 1;
        return numbers(env, bench)
                .map(
                        number -> {
                            begin();
                            return number + 1;
                        })
                .returns(Types.LONG)
                .map(next)
                .returns(Types.LONG)
                .map(next)
                .returns(Types.LONG)
                .filter(number -> (number & 1) == 0);
    }

    private static DataStream<?> windowedCount(StreamExecutionEnvironment env, JsonNode bench) {
        return numbers(env, bench)
                .map(
                        number -> {
                            begin();
                            return Tuple2.of(
                                    number * 2654435761L % 1000, 1_700_000_000_000L + number / 20);
                        })
                .returns(Types.TUPLE(Types.LONG, Types.LONG))
                .assignTimestampsAndWatermarks(
                        WatermarkStrategy.<Tuple2<Long, Long>>forBoundedOutOfOrderness(
                                        Duration.ofSeconds(1))
                                .withTimestampAssigner((pair, before) -> pair.f1))
                .keyBy(pair -> pair.f0)
                .window(TumblingEventTimeWindows.of(Duration.ofSeconds(10)))
                .aggregate(new Count());
    }

    /** The words of a line, each with a one. */
    public static final class Words implements FlatMapFunction<String, Tuple2<String, Long>> {
        private static final Pattern SEPARATOR = Pattern.compile("\\W+");

        @Override
        public void flatMap(String line, Collector<Tuple2<String, Long>> out) {
            begin();
            for (String word : SEPARATOR.split(line.toLowerCase())) {
                if (!word.isEmpty()) {
                    out.collect(Tuple2.of(word, 1L));
                }
            }
        }
    }

    /** How many elements there are. */
    public static final class Count implements AggregateFunction<Tuple2<Long, Long>, Long, Long> {
        @Override
        public Long createAccumulator() {
            return 0L;
        }

        @Override
        public Long add(Tuple2<Long, Long> value, Long count) {
            return count + 1;
        }

        @Override
        public Long getResult(Long count) {
            return count;
        }

        @Override
        public Long merge(Long left, Long right) {
            return left + right;
        }
    }

    /** Takes elements, and marks its end. */
    public static final class Discard<T> implements Sink<T> {
        @Override
        public SinkWriter<T> createWriter(WriterInitContext context) {
            return new SinkWriter<>() {
                @Override
                public void write(T element, Context context) {}

                @Override
                public void flush(boolean isEndOfInput) {
                    if (isEndOfInput) {
                        mark("last");
                    }
                }

                @Override
                public void close() {}
            };
        }
    }
}
