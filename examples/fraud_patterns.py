"""Stolen cards: small payments that try a card out, then a large one, by a pattern.

    python examples/fraud_patterns.py

Two or more payments below 2.00 and then one above 500.00 of the same card, within ten minutes.
"""

import random

from penstock.cep import CEP, AfterMatchSkipStrategy, Pattern, PatternProcessFunction
from penstock.common import Duration, Types, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.expressions import field

PAYMENT = Types.ROW_NAMED(["card", "amount", "ts"], [Types.INT(), Types.DOUBLE(), Types.LONG()])
ALERT = Types.TUPLE([Types.INT(), Types.INT(), Types.DOUBLE()])
START_MS = 1_767_225_600_000  # 2026-01-01
STOLEN = [3, 11]

TRIED_AND_USED = (
    Pattern.begin("try", AfterMatchSkipStrategy.skip_past_last_event())
    .where(field("amount") < 2.0)
    .times_or_more(2)
    .greedy()
    .followed_by("use")
    .where(field("amount") > 500.0)
    .within(Duration.of_minutes(10))
)


def payments():
    """Return payments of 20 cards, a second apart; two of the cards are stolen."""
    chance = random.Random(1)
    made = [
        {"card": n % 20, "amount": round(chance.uniform(5, 400), 2), "ts": START_MS + n * 1000}
        for n in range(2000)
    ]
    for card in STOLEN:
        for number, amount in enumerate([1.0, 1.5, 900.0]):
            made[card + 20 * (10 + number)]["amount"] = amount
    return made


class Alerts(PatternProcessFunction):
    """Emits the card, the number of tries and the large amount."""

    def process_match(self, match, ctx):
        use = match["use"][0]
        yield use.card, len(match["try"]), use.amount


def define(env):
    """Return the stream of alerts."""
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(field("ts"))
    stream = env.from_collection(payments(), PAYMENT).assign_timestamps_and_watermarks(times)
    by_card = stream.key_by(field("card"))
    return CEP.pattern(by_card, TRIED_AND_USED).process(Alerts(), ALERT)


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    define(env).print()
    env.execute("fraud patterns")
