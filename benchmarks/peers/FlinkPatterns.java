import java.time.Duration;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.cep.CEP;
import org.apache.flink.cep.PatternSelectFunction;
import org.apache.flink.cep.nfa.aftermatch.AfterMatchSkipStrategy;
import org.apache.flink.cep.pattern.Pattern;
import org.apache.flink.cep.pattern.conditions.IterativeCondition;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;

/** The job of {@code benchmarks/patterns.py} on Flink's DataStream API in Java. */
public final class FlinkPatterns {
    private FlinkPatterns() {}

    public static void main(String[] arguments) throws Exception {
        long records = Long.parseLong(arguments[0]);
        int keys = Integer.parseInt(arguments[1]);
        StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(1);
        env.getConfig().enableObjectReuse();
        DataStream<Tuple3<Long, Long, Long>> ticks =
                env.fromSequence(0, records - 1)
                        .map(
                                n -> Tuple3.of(n % keys, (n * 2654435761L >> 7) % 1000, n / 10),
                                Types.TUPLE(Types.LONG, Types.LONG, Types.LONG))
                        .assignTimestampsAndWatermarks(
                                WatermarkStrategy.<Tuple3<Long, Long, Long>>forMonotonousTimestamps()
                                        .withTimestampAssigner((tick, before) -> tick.f2));
        Pattern<Tuple3<Long, Long, Long>, ?> rise =
                Pattern.<Tuple3<Long, Long, Long>>begin(
                                "start", AfterMatchSkipStrategy.skipPastLastEvent())
                        .next("up")
                        .where(new Rising())
                        .oneOrMore()
                        .consecutive()
                        .greedy()
                        .next("down")
                        .where(new Dropping());
        CEP.pattern(ticks.keyBy(tick -> tick.f0), rise)
                .select(
                        (PatternSelectFunction<Tuple3<Long, Long, Long>, Tuple3<Long, Long, Long>>)
                                match ->
                                        Tuple3.of(
                                                match.get("start").get(0).f0,
                                                (long) match.get("up").size(),
                                                match.get("down").get(0).f1),
                        Types.TUPLE(Types.LONG, Types.LONG, Types.LONG))
                .sinkTo(new DiscardingSink<>());
        env.execute("patterns");
    }

    private static final class Rising extends IterativeCondition<Tuple3<Long, Long, Long>> {
        @Override
        public boolean filter(
                Tuple3<Long, Long, Long> tick, Context<Tuple3<Long, Long, Long>> context)
                throws Exception {
            Tuple3<Long, Long, Long> last = null;
            for (Tuple3<Long, Long, Long> up : context.getEventsForPattern("up")) {
                last = up;
            }
            if (last == null) {
                last = context.getEventsForPattern("start").iterator().next();
            }
            return tick.f1 > last.f1;
        }
    }

    private static final class Dropping extends IterativeCondition<Tuple3<Long, Long, Long>> {
        @Override
        public boolean filter(
                Tuple3<Long, Long, Long> tick, Context<Tuple3<Long, Long, Long>> context)
                throws Exception {
            return tick.f1 < context.getEventsForPattern("start").iterator().next().f1;
        }
    }
}
