import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.cep.CEP;
import org.apache.flink.cep.PatternSelectFunction;
import org.apache.flink.cep.pattern.Pattern;
import org.apache.flink.cep.pattern.conditions.SimpleCondition;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;

/** The job of {@code benchmarks/pattern_memory.py} on Flink's DataStream API in Java. */
public final class FlinkPatternMemory {
    private FlinkPatternMemory() {}

    public static void main(String[] arguments) throws Exception {
        long records = Long.parseLong(arguments[0]);
        String shape = arguments[1];
        long recordsOfKey = Long.parseLong(arguments[2]);
        boolean beginsOften = shape.equals("single") || shape.equals("shared");
        StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(1);
        env.getConfig().enableObjectReuse();
        DataStream<Tuple3<Long, Long, Long>> ticks =
                env.fromSequence(0, records)
                        .map(
                                n ->
                                        Tuple3.of(
                                                n / recordsOfKey,
                                                1000 + n % recordsOfKey,
                                                n / 10),
                                Types.TUPLE(Types.LONG, Types.LONG, Types.LONG));
        Pattern<Tuple3<Long, Long, Long>, Tuple3<Long, Long, Long>> pattern =
                Pattern.<Tuple3<Long, Long, Long>>begin("start")
                        .where(new Measuring(records, beginsOften));
        if (!shape.equals("single")) {
            pattern = pattern.followedBy("more").where(SimpleCondition.of(tick -> tick.f1 > 0));
            pattern = shape.equals("loop") ? pattern.oneOrMore() : pattern.times(4);
        }
        pattern = pattern.followedBy("end").where(SimpleCondition.of(tick -> tick.f1 < 0));
        CEP.pattern(ticks.keyBy(tick -> tick.f0), pattern)
                .inProcessingTime()
                .select(
                        (PatternSelectFunction<Tuple3<Long, Long, Long>, Long>) match -> 1L,
                        Types.LONG)
                .sinkTo(new DiscardingSink<>());
        env.execute("pattern memory");
    }

    private static final class Measuring extends SimpleCondition<Tuple3<Long, Long, Long>> {
        private final long records;
        private final boolean beginsOften;
        private long seen;
        private long before;

        Measuring(long records, boolean beginsOften) {
            this.records = records;
            this.beginsOften = beginsOften;
        }

        private static long used() {
            for (int i = 0; i < 4; i++) {
                System.gc();
            }
            return Runtime.getRuntime().totalMemory() - Runtime.getRuntime().freeMemory();
        }

        @Override
        public boolean filter(Tuple3<Long, Long, Long> tick) {
            if (seen == records / 10) {
                before = used();
            } else if (seen == records) {
                System.out.println((double) (used() - before) / (records - records / 10));
            }
            seen++;
            return beginsOften || tick.f1 == 1000;
        }
    }
}
