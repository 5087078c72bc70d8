// Feeds the cases of a JSON file to Flink's automata and writes what they match.
//
// A case has a pattern, as tests/support/pattern_descriptions.py describes it, and events such as "a1@5":
// kind, number, timestamp.  Its result is a list of steps: a match, or a timeout with its time.

import java.io.File;
import java.io.PrintWriter;
import java.io.Serializable;
import java.lang.reflect.Proxy;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.state.KeyedStateStore;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.typeutils.base.StringSerializer;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.cep.nfa.NFA;
import org.apache.flink.cep.nfa.NFAState;
import org.apache.flink.cep.nfa.aftermatch.AfterMatchSkipStrategy;
import org.apache.flink.cep.nfa.compiler.NFACompiler;
import org.apache.flink.cep.nfa.sharedbuffer.SharedBuffer;
import org.apache.flink.cep.nfa.sharedbuffer.SharedBufferAccessor;
import org.apache.flink.cep.pattern.Pattern;
import org.apache.flink.cep.pattern.WithinType;
import org.apache.flink.cep.pattern.conditions.IterativeCondition;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;

public class RecordPatterns {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        JsonNode cases = JSON.readTree(new File(arguments[0]));
        try (PrintWriter out = new PrintWriter(arguments[1], "UTF-8")) {
            String before = "[\n";
            for (JsonNode one : cases) {
                ObjectNode recorded = (ObjectNode) one;
                try {
                    recorded.set("result", feed(one));
                } catch (Exception error) {
                    Throwable cause = error;
                    while (cause.getCause() != null) {
                        cause = cause.getCause();
                    }
                    recorded.put("error", cause.getClass().getSimpleName());
                    recorded.put("message", String.valueOf(cause.getMessage()));
                }
                out.print(before + JSON.writeValueAsString(recorded));
                before = ",\n";
            }
            out.print("\n]\n");
        }
        System.exit(0);
    }

    private static ArrayNode feed(JsonNode one) throws Exception {
        Pattern<String, ?> pattern = pattern(one.get("parts"), skip(one.get("skip")));
        AfterMatchSkipStrategy skip = pattern.getAfterMatchSkipStrategy();
        NFA<String> nfa = NFACompiler.compileFactory(pattern, true).createNFA();
        NFAState state = nfa.createInitialNFAState();
        SharedBuffer<String> buffer = new SharedBuffer<>(store(), StringSerializer.INSTANCE);
        ArrayNode steps = JSON.createArrayNode();
        try {
            for (String event : one.get("events").asText().split(" ")) {
                long time = Long.parseLong(event.split("@")[1]);
                advance(nfa, state, buffer, time, skip, steps);
                try (SharedBufferAccessor<String> accessor = buffer.getAccessor()) {
                    String value = event.split("@")[0];
                    for (Map<String, List<String>> match :
                            nfa.process(accessor, state, value, time, skip, () -> 0L)) {
                        add(steps, "match", match);
                    }
                }
            }
            if (one.has("end")) {
                advance(nfa, state, buffer, one.get("end").asLong(), skip, steps);
            }
        } finally {
            buffer.releaseCacheStatisticsTimer();
        }
        return steps;
    }

    private static void advance(
            NFA<String> nfa,
            NFAState state,
            SharedBuffer<String> buffer,
            long time,
            AfterMatchSkipStrategy skip,
            ArrayNode steps)
            throws Exception {
        try (SharedBufferAccessor<String> accessor = buffer.getAccessor()) {
            var both = nfa.advanceTime(accessor, state, time, skip);
            for (Map<String, List<String>> match : both.f0) {
                add(steps, "match", match);
            }
            for (Tuple2<Map<String, List<String>>, Long> match : both.f1) {
                add(steps, "timeout", match.f0).add((long) match.f1);
            }
        }
    }

    private static ArrayNode add(ArrayNode steps, String kind, Map<String, List<String>> match) {
        ObjectNode parts = JSON.createObjectNode();
        match.forEach((name, values) -> parts.put(name, String.join(" ", values)));
        return steps.addArray().add(kind).add(parts);
    }

    private static AfterMatchSkipStrategy skip(JsonNode skip) {
        if (skip == null) {
            return AfterMatchSkipStrategy.noSkip();
        }
        switch (skip.get(0).asText()) {
            case "to_next":
                return AfterMatchSkipStrategy.skipToNext();
            case "past_last_event":
                return AfterMatchSkipStrategy.skipPastLastEvent();
            default:
                String name = skip.get(1).asText();
                boolean isFirst = skip.get(0).asText().equals("to_first");
                if (skip.size() > 2) {
                    return isFirst
                            ? AfterMatchSkipStrategy.skipToFirst(name).throwExceptionOnMiss()
                            : AfterMatchSkipStrategy.skipToLast(name).throwExceptionOnMiss();
                }
                return isFirst
                        ? AfterMatchSkipStrategy.skipToFirst(name)
                        : AfterMatchSkipStrategy.skipToLast(name);
        }
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static Pattern<String, ?> pattern(JsonNode parts, AfterMatchSkipStrategy skip) {
        Pattern pattern = null;
        for (JsonNode part : parts) {
            pattern = appended(pattern, part, skip);
            if (part.has("where")) {
                pattern = pattern.where(new Described(part.get("where").toString()));
            }
            for (JsonNode call : part.path("calls")) {
                pattern = called(pattern, call);
            }
        }
        return pattern;
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static Pattern appended(Pattern before, JsonNode part, AfterMatchSkipStrategy skip) {
        String by = part.get("by").asText();
        if (part.has("group")) {
            Pattern group = pattern(part.get("group"), AfterMatchSkipStrategy.noSkip());
            switch (by) {
                case "begin":
                    return Pattern.begin(group, skip);
                case "next":
                    return before.next(group);
                case "followed_by":
                    return before.followedBy(group);
                default:
                    return before.followedByAny(group);
            }
        }
        String name = part.get("name").asText();
        switch (by) {
            case "begin":
                return Pattern.begin(name, skip);
            case "next":
                return before.next(name);
            case "followed_by":
                return before.followedBy(name);
            case "followed_by_any":
                return before.followedByAny(name);
            case "not_next":
                return before.notNext(name);
            default:
                return before.notFollowedBy(name);
        }
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static Pattern called(Pattern pattern, JsonNode call) {
        JsonNode first = call.get(1);
        switch (call.get(0).asText()) {
            case "optional":
                return pattern.optional();
            case "one_or_more":
                return first == null ? pattern.oneOrMore() : pattern.oneOrMore(millis(first));
            case "times_or_more":
                return pattern.timesOrMore(first.asInt());
            case "times":
                return call.size() == 2
                        ? pattern.times(first.asInt())
                        : pattern.times(first.asInt(), call.get(2).asInt());
            case "times_within":
                return pattern.times(first.asInt(), millis(call.get(2)));
            case "greedy":
                return pattern.greedy();
            case "consecutive":
                return pattern.consecutive();
            case "allow_combinations":
                return pattern.allowCombinations();
            case "until":
                return pattern.until(new Described(first.toString()));
            case "or_":
                return pattern.or(new Described(first.toString()));
            case "within":
                return pattern.within(millis(first));
            case "within_previous":
                return pattern.within(millis(first), WithinType.PREVIOUS_AND_CURRENT);
            default:
                throw new IllegalArgumentException(call.toString());
        }
    }

    private static Duration millis(JsonNode number) {
        return Duration.ofMillis(number.asLong());
    }

    private static final class Described extends IterativeCondition<String> implements Serializable {
        private final String text;

        Described(String text) {
            this.text = text;
        }

        @Override
        public boolean filter(String value, Context<String> context) throws Exception {
            JsonNode condition = JSON.readTree(text);
            JsonNode argument = condition.get(1);
            switch (condition.get(0).asText()) {
                case "is":
                    return kind(value).equals(argument.asText());
                case "in":
                    return argument.asText().contains(kind(value));
                case "above":
                    return number(value) > argument.asInt();
                case "rising":
                    int last = Integer.MIN_VALUE;
                    for (String event : context.getEventsForPattern(argument.asText())) {
                        last = number(event);
                    }
                    return number(value) > last;
                case "sum_below":
                    int sum = number(value);
                    for (String event : context.getEventsForPattern(argument.asText())) {
                        sum += number(event);
                    }
                    return sum < condition.get(2).asInt();
                case "fewer":
                    int count = 0;
                    for (String event : context.getEventsForPattern(argument.asText())) {
                        count++;
                    }
                    return count < condition.get(2).asInt();
                case "both":
                    return new Described(argument.toString()).filter(value, context)
                            && new Described(condition.get(2).toString()).filter(value, context);
                default:
                    throw new IllegalArgumentException(text);
            }
        }

        private static String kind(String event) {
            return event.replaceAll("[0-9]", "");
        }

        private static int number(String event) {
            String digits = event.replaceAll("[^0-9]", "");
            return digits.isEmpty() ? 0 : Integer.parseInt(digits);
        }
    }

    private static KeyedStateStore store() {
        return (KeyedStateStore)
                Proxy.newProxyInstance(
                        RecordPatterns.class.getClassLoader(),
                        new Class<?>[] {KeyedStateStore.class},
                        (proxy, method, arguments) -> map());
    }

    /** A MapState over a HashMap. */
    private static Object map() {
        Map<Object, Object> values = new HashMap<>();
        return Proxy.newProxyInstance(
                RecordPatterns.class.getClassLoader(),
                new Class<?>[] {MapState.class},
                (proxy, method, arguments) -> {
                    switch (method.getName()) {
                        case "get":
                            return values.get(arguments[0]);
                        case "put":
                            return values.put(arguments[0], arguments[1]) == null ? null : null;
                        case "putAll":
                            values.putAll((Map<?, ?>) arguments[0]);
                            return null;
                        case "remove":
                            values.remove(arguments[0]);
                            return null;
                        case "contains":
                            return values.containsKey(arguments[0]);
                        case "isEmpty":
                            return values.isEmpty();
                        case "entries":
                            return new ArrayList<>(values.entrySet());
                        case "iterator":
                            return values.entrySet().iterator();
                        case "keys":
                            return new ArrayList<>(values.keySet());
                        case "values":
                            return new ArrayList<>(values.values());
                        case "clear":
                            values.clear();
                            return null;
                        default:
                            throw new UnsupportedOperationException(method.getName());
                    }
                });
    }
}
