"""The figures of the gallery, drawn from the results of its programs.

The tests of the examples call `keeps` with the results that they check: it compares the figure with
``docs/images/gallery/NAME.svg``, and writes it if PENSTOCK_FIGURES is ``write`` (``make figures``).
"""

import math
import os
from collections import Counter
from html import escape
from pathlib import Path

FIGURES = Path(__file__).resolve().parents[2] / "docs" / "images" / "gallery"
BLUE, ORANGE, GREEN, GREY, INK = "#0b6bcb", "#d9711b", "#3a8a4d", "#c3ccd6", "#1f2933"
COLOURS = (BLUE, ORANGE, GREEN)
WIDTH, LEFT, RIGHT, TOP, BOTTOM = 640, 92, 616, 44, 46
MINUTE_MS = 60_000


def keeps(name, example, results):
    """Compare the figure of a program with the stored one, or write it.

    Args:
        name: The name of the figure.
        example: The names that the program defines.
        results: The results that the program computed, as the figure's function describes them.
    """
    path = FIGURES / f"{name}.svg"
    drawn = DRAWN[name](example, results).svg()
    if os.environ.get("PENSTOCK_FIGURES") == "write":
        path.write_text(drawn)
    assert path.read_text() == drawn, "the figure differs from the results: run make figures"


class Figure:
    """A drawing in SVG with a title and two axes.

    Positions are values of the axes; sizes are pixels.
    """

    def __init__(self, title, height, x, y, *, logarithmic=False):
        """Begin a figure.

        Args:
            title: The text above the drawing.
            height: The height of the drawing.
            x: The label of the horizontal axis, its ends and its ticks, by position.
            y: The same of the vertical axis.
            logarithmic: Whether the vertical axis is.
        """
        self.height = height
        self.parts = []
        self.logarithmic = logarithmic
        self.x_label, self.x_ends, x_ticks = x
        self.y_label, self.y_ends, y_ticks = y
        floor = height - BOTTOM
        self.text_at(LEFT, 24, title, size=15, weight="bold")
        for position, text in x_ticks.items():
            at = self.x(position)
            self.line_at(at, TOP, at, floor, "#eef1f4")
            self.text_at(at, floor + 16, text, anchor="middle")
        for position, text in y_ticks.items():
            at = self.y(position)
            self.line_at(LEFT, at, RIGHT, at, "#eef1f4")
            self.text_at(LEFT - 8, at + 4, text, anchor="end")
        self.line_at(LEFT, floor, RIGHT, floor, GREY)
        self.text_at((LEFT + RIGHT) / 2, height - 10, self.x_label, anchor="middle")
        if self.y_label:
            self.text_at(LEFT - 8, TOP - 8, self.y_label, anchor="end")

    def x(self, value):
        low, high = self.x_ends
        return LEFT + (value - low) / (high - low) * (RIGHT - LEFT)

    def y(self, value):
        low, high = self.y_ends
        if self.logarithmic:
            low, high, value = math.log(low), math.log(high), math.log(value)
        floor = self.height - BOTTOM
        return floor - (value - low) / (high - low) * (floor - TOP)

    def line_at(self, x1, y1, x2, y2, colour, width=1, dashes=""):
        self.parts.append(
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" '
            f'stroke-width="{width}"' + (f' stroke-dasharray="{dashes}"' if dashes else "") + "/>"
        )

    def text_at(self, x, y, text, *, anchor="start", size=12, weight="normal", colour=INK):
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" font-weight="{weight}" '
            f'text-anchor="{anchor}" fill="{colour}">{escape(str(text))}</text>'
        )

    def dot(self, x, y, colour, *, radius=4.5, ring=False):
        paint = f'fill="none" stroke="{colour}" stroke-width="2"' if ring else f'fill="{colour}"'
        self.parts.append(
            f'<circle cx="{self.x(x):.1f}" cy="{self.y(y):.1f}" r="{radius}" {paint}/>'
        )

    def note(self, x, y, text, *, anchor="middle", above=8, colour=INK):
        """Write a text above a position."""
        self.text_at(self.x(x), self.y(y) - above, text, anchor=anchor, colour=colour)

    def column(self, x, low, high, colour, *, width=40, shift=0):
        """Draw a column between two values of the vertical axis."""
        top, floor = self.y(high), self.y(low)
        self._box(self.x(x) + shift - width / 2, top, width, floor - top, colour)

    def bar(self, y, begin, end, colour, *, thickness=18):
        """Draw a bar between two values of the horizontal axis."""
        left, right = self.x(begin), self.x(end)
        width = max(right - left, thickness)  # a bar without a length still shows
        centre = (left + right) / 2
        self._box(centre - width / 2, self.y(y) - thickness / 2, width, thickness, colour)

    def _box(self, x, y, width, height, colour):
        self.parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="3" '
            f'fill="{colour}"/>'
        )

    def legend(self, entries):
        """Name colours, in the title's line at the right."""
        at = RIGHT
        for text, colour in reversed(entries):
            at -= 7 * len(text)
            self.text_at(at, 24, text)
            self.parts.append(f'<circle cx="{at - 9}" cy="20" r="5" fill="{colour}"/>')
            at -= 24

    def svg(self):
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.height}" '
            f'width="{WIDTH}" height="{self.height}" font-family="sans-serif">',
            f'<rect width="{WIDTH}" height="{self.height}" fill="#fff"/>',
            *self.parts,
            "</svg>",
        ]
        return "\n".join(lines) + "\n"


def columns(title, label, named, colours=None, *, most=None, y_ticks=(), unit="{}"):
    """Return a figure with a column for each name, and its value above it."""
    most = most or max(named.values()) * 1.2
    count = len(named)
    names = {number + 0.5: name for number, name in enumerate(named)}
    ticks = {tick: str(tick) for tick in y_ticks}
    figure = Figure(title, 260, (label, (0, count), names), ("", (0, most), ticks))
    for number, value in enumerate(named.values()):
        colour = colours[number] if colours else BLUE
        figure.column(number + 0.5, 0, value, colour, width=min(56, 400 / count))
        figure.note(number + 0.5, value, unit.format(value))
    return figure


def clickstream_sessions(example, results):
    """Draw clicks as dots, and sessions (user, begin, end, clicks) as bars behind them."""
    users = sorted({user for user, *_ in results}, reverse=True)
    rows = {number + 0.5: user for number, user in enumerate(users)}
    ticks = {minute: str(minute) for minute in range(0, 61, 10)}
    figure = Figure(
        "Clicks, and the sessions of which they are part",
        200,
        ("minutes", (-2, 62), ticks),
        ("", (0, len(users)), rows),
    )
    place = {user: number + 0.5 for number, user in enumerate(users)}
    for user, begin, end, clicks in sorted(results):
        begin, end = begin / MINUTE_MS, end / MINUTE_MS
        figure.bar(place[user], begin, end, GREY, thickness=22)
        text = f"{clicks} clicks" if clicks > 1 else "1 click"
        figure.note((begin + end) / 2, place[user], text, above=17)
    for user, _, time_ms in example["CLICKS"]:
        figure.dot(time_ms / MINUTE_MS, place[user], BLUE)
    return figure


def fraud_patterns(example, results):
    """Draw the payments of stolen cards; alerts (card, tries, amount) have rings."""
    payments = [one for one in example["payments"]() if one["card"] in example["STOLEN"]]
    figure = Figure(
        "Payments of two stolen cards",
        300,
        ("minutes", (0, 14), {minute: str(minute) for minute in range(0, 15, 2)}),
        ("amount", (0.8, 1500), {1: "1", 2: "2", 10: "10", 100: "100", 500: "500"}),
        logarithmic=True,
    )
    figure.legend([(f"card {card}", COLOURS[n]) for n, card in enumerate(example["STOLEN"])])
    for payment in payments:
        minutes = (payment["ts"] - example["START_MS"]) / MINUTE_MS
        if minutes <= 14:
            colour = COLOURS[example["STOLEN"].index(payment["card"])]
            figure.dot(minutes, payment["amount"], colour, radius=3.5)
            if (payment["card"], payment["amount"]) in {(card, used) for card, _, used in results}:
                figure.dot(minutes, payment["amount"], colour, radius=8, ring=True)
    tries = sorted({tries for _, tries, _ in results})
    figure.text_at(
        figure.x(4.8), figure.y(900) + 4, f"{len(results)} alerts, after {tries[0]} tries each"
    )
    return figure


def iot_late_data(example, results):
    """Draw the readings of each window: in time, as corrections, and too late."""
    means = [result for result in results if result[0] != "too late"]
    first, last = {}, {}
    for _, sensor, start_ms, count in means:
        window = (start_ms, sensor)
        first[window] = min(first.get(window, count), count)
        last[window] = max(last.get(window, count), count)
    late = Counter(
        (time_ms - time_ms % MINUTE_MS, sensor)
        for text, sensor, time_ms, _ in results
        if text == "too late"
    )
    windows = sorted(first)
    names = {
        number + 0.5: f"{(start_ms - example['START_MS']) // MINUTE_MS}:00, {sensor}"
        for number, (start_ms, sensor) in enumerate(windows)
    }
    figure = Figure(
        "Readings in each window",
        280,
        ("minute and sensor", (0, len(windows)), names),
        ("", (55, 61), {count: str(count) for count in range(56, 61)}),
    )
    figure.legend([("in time", BLUE), ("corrections", GREEN), ("too late", ORANGE)])
    for number, window in enumerate(windows):
        top = last[window] + late[window]
        for low, high, colour in (
            (55, first[window], BLUE),
            (first[window], last[window], GREEN),
            (last[window], top, ORANGE),
        ):
            if low < high:
                figure.column(number + 0.5, low, high, colour, width=50)
    return figure


def cdc_replica(example, results):
    """Draw the changes, one below the other, and the rows that remain."""
    changes = example["CHANGES"]
    figure = Figure(
        "Changes of a table, and the replica at their end",
        60 + 28 * len(changes) + BOTTOM,
        ("", (0, 2), {}),
        ("", (0, len(changes)), {}),
    )

    def text(row):
        return f"{row['id']}  {row['item']}  {row['price']:.2f}"

    for number, (before, after) in enumerate(changes):
        kind, colour, row = (
            ("insert", GREEN, after)
            if before is None
            else ("delete", ORANGE, before)
            if after is None
            else ("update", BLUE, after)
        )
        at = TOP + 28 * number
        figure._box(LEFT, at, 70, 22, colour)
        figure.text_at(LEFT + 35, at + 15, kind, anchor="middle", colour="#fff")
        figure.text_at(LEFT + 84, at + 15, text(row))
    middle = TOP + 14 * len(changes)
    figure.line_at(310, middle, 370, middle, GREY, 3)
    figure.text_at(370, middle + 6, "▶", size=18, colour=GREY)
    for number, values in enumerate(results):
        at = middle - 14 * len(results) + 28 * number
        figure._box(410, at, 150, 22, "#e3eefa")
        row = dict(zip(("id", "item", "price"), values, strict=True))
        figure.text_at(424, at + 15, text(row))
    return figure


def kafka_to_delta(example, results):
    """Draw the rows of the table by item."""
    prices = {row["item"]: row["price"] for row in results}
    title = "Orders in the Delta table: price by item"
    return columns(title, "orders with a price of 0 or less are left out", prices, unit="{:.2f}")


def streaming_features(example, results):
    """Draw a dot for the last row of each user: purchases, at night, mean price."""
    figure = Figure(
        "Two features of each user",
        300,
        ("purchases at night, percent", (31, 35), {n: str(n) for n in range(31, 36)}),
        ("log₂ price", (-0.2, 3.6), {n: str(n) for n in range(4)}),
    )
    for purchases, at_night, mean_log_price in results:
        figure.dot(100 * at_night / purchases, mean_log_price, BLUE, radius=4)
    return figure


def sql_over_streams(example, results):
    """Draw the totals of all items; the last row (city, item, total) of each city stands out."""
    totals = Counter()
    for sale in example["SALES"]:
        totals[sale["city"], sale["item"]] += sale["amount"]
    bars = {f"{city}, {item}": total for (city, item), total in sorted(totals.items())}
    colours = [
        ORANGE if (*key, total) in results else GREY for key, total in sorted(totals.items())
    ]
    figure = columns("The best item of each city", "amounts of all sales", bars, colours)
    figure.legend([("the query's last row", ORANGE)])
    return figure


def nexmark_q5(example, results):
    """Draw the hottest auction of each window (end in ms, auction, bids)."""
    rows = sorted(
        (end_ms - example["START_MS"], auction, bids) for end_ms, auction, bids in results
    )
    named = {str(end_ms // 1000): bids for end_ms, _, bids in rows}
    auctions = sorted({auction for _, auction, _ in rows})
    colours = [COLOURS[auctions.index(auction) % 3] for _, auction, _ in rows]
    title = "Query 5: the hottest auctions"
    figure = columns(title, "bids in the ten seconds that end at this second", named, colours)
    figure.legend([(f"auction {auction}", COLOURS[n % 3]) for n, auction in enumerate(auctions)])
    return figure


def nexmark_q7(example, results):
    """Draw all bids; the highest ones (end in ms, auction, bidder, price) stand out."""
    start_ms = example["START_MS"]
    figure = Figure(
        "Query 7: the highest bids of each ten seconds",
        280,
        ("seconds", (0, 30), {n: str(n) for n in range(0, 31, 10)}),
        ("price", (0, 1200), {n: str(n) for n in range(0, 1201, 400)}),
    )
    for bid in example["BIDS"]:
        end_ms = start_ms + ((bid["ts"] - start_ms) // 10_000 + 1) * 10_000
        seconds = (bid["ts"] - start_ms) / 1000
        figure.dot(seconds, bid["price"], GREY, radius=2)
        if (end_ms, bid["auction"], bid["bidder"], bid["price"]) in results:
            figure.dot(seconds, bid["price"], ORANGE, radius=5)
            figure.note(seconds, bid["price"], bid["price"])
    return figure


def unpaid_orders(example, results):
    """Draw how long each order waited for its payment: number, outcome, delay in ms."""
    orders = {number + 0.5: f"order {order}" for number, (order, *_) in enumerate(sorted(results))}
    ticks = {minute: str(minute) for minute in range(0, 19, 3)}
    figure = Figure(
        "How long orders waited for their payment",
        220,
        ("minutes", (0, 18), ticks),
        ("", (len(orders), 0), orders),
    )
    figure.legend([("paid", GREEN), ("unpaid", ORANGE)])
    for number, (_, outcome, delay_ms) in enumerate(sorted(results)):
        colour = GREEN if outcome == "paid" else ORANGE
        figure.bar(number + 0.5, 0, delay_ms / MINUTE_MS, colour, thickness=24)
    limit = figure.x(15)
    figure.line_at(limit, TOP, limit, figure.height - BOTTOM, INK, 1, "4 4")
    return figure


def async_enrichment(example, results):
    """Draw the items in their order, with the prices that the service answered by item."""
    named = {f"{n}. {item}": results[item] for n, item in enumerate(example["ITEMS"], 1)}
    title = "Items with the prices that the service answered"
    return columns(title, "in the order of the items", named, unit="{:.2f}")


DRAWN = {
    "clickstream_sessions": clickstream_sessions,
    "fraud_patterns": fraud_patterns,
    "iot_late_data": iot_late_data,
    "cdc_replica": cdc_replica,
    "kafka_to_delta": kafka_to_delta,
    "streaming_features": streaming_features,
    "sql_over_streams": sql_over_streams,
    "nexmark_q5": nexmark_q5,
    "nexmark_q7": nexmark_q7,
    "unpaid_orders": unpaid_orders,
    "async_enrichment": async_enrichment,
}
