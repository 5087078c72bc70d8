"""Seeded events of an online auction house: persons, auctions and bids in the ratio 1 : 3 : 46.

    python benchmarks/nexmark/events.py FOLDER [--events 1000000] [--seed 1] [--format parquet]

The model is that of the Nexmark benchmark (Tucker, Tufte, Papadimos, Maier: "NEXMark: A Benchmark
for Queries over Data Streams") as Apache Beam configures it.  Of 50 events one is a person, three
are auctions and the others bids.  Every second bid is for a hot auction, three bids of four are
from a hot bidder, three auctions of four belong to a hot seller.  A person takes about 200 bytes,
an auction 500 and a bid 100.  A second of event time has 10,000 events.

Each block of events has its own random generator, so that a large set begins with the events of a
small one.  A table is a folder with a file for one or several blocks.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyarrow import parquet

if TYPE_CHECKING:
    from collections.abc import Iterator

EVENTS_OF_A_ROUND = 50
AUCTIONS_OF_A_ROUND = 3
BIDS_OF_A_ROUND = 46
ROUNDS_OF_A_BLOCK = 1024
#: Events of a second of event time.
RATE = 10_000
BASE_TIME_MS = 1_436_918_400_000

FIRST_PERSON_ID = FIRST_AUCTION_ID = 1000
FIRST_CATEGORY = 10
CATEGORIES = 5
ACTIVE_PERSONS = 1000
AUCTIONS_IN_FLIGHT = 100
#: How many ids ahead of existing auctions and persons an event may name.
ID_LEAD = 10
#: Of so many consecutive ids, one is hot at a time.
HOT_GROUP = 100
CHANNELS = 10_000
#: The maximum number of a table's files; for more blocks, a file gets several.
FILES = 40

SCHEMAS = {
    "person": pa.schema(
        [
            ("id", pa.int64()),
            ("name", pa.string()),
            ("emailAddress", pa.string()),
            ("creditCard", pa.string()),
            ("city", pa.string()),
            ("state", pa.string()),
            ("dateTime", pa.int64()),
            ("extra", pa.string()),
        ]
    ),
    "auction": pa.schema(
        [
            ("id", pa.int64()),
            ("itemName", pa.string()),
            ("description", pa.string()),
            ("initialBid", pa.int64()),
            ("reserve", pa.int64()),
            ("dateTime", pa.int64()),
            ("expires", pa.int64()),
            ("seller", pa.int64()),
            ("category", pa.int64()),
            ("extra", pa.string()),
        ]
    ),
    "bid": pa.schema(
        [
            ("auction", pa.int64()),
            ("bidder", pa.int64()),
            ("price", pa.int64()),
            ("channel", pa.string()),
            ("url", pa.string()),
            ("dateTime", pa.int64()),
            ("extra", pa.string()),
        ]
    ),
}

STATES = ["AZ", "CA", "ID", "OR", "WA", "WY"]
CITIES = "Phoenix,Los Angeles,San Francisco,Boise,Portland,Bend,Redmond,Seattle,Kent,Cheyenne"
FIRST_NAMES = "Peter,Paul,Luke,John,Saul,Vicky,Kate,Julie,Sarah,Deiter,Walter"
LAST_NAMES = "Shultz,Abrams,Spencer,White,Bartels,Walton,Smith,Jones,Noris"
HOT_CHANNELS = ["Google", "Facebook", "Baidu", "Apple"]
URL = "https://www.nexmark.com/"
LETTERS = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz", np.uint8)


def batches(events: int, seed: int = 1, rate: int = RATE) -> Iterator[dict[str, pa.RecordBatch]]:
    """Yield the events of one block after the other, by table.

    Args:
        events: The total number of events.
        seed: Events of different seeds differ.
        rate: The number of events in a second of event time.
    """
    block_events = ROUNDS_OF_A_BLOCK * EVENTS_OF_A_ROUND
    for block in range(-(-events // block_events)):
        first = block * block_events
        random = np.random.default_rng([seed, block])
        numbers = np.arange(first, min(events, first + block_events), dtype=np.int64)
        place = numbers % EVENTS_OF_A_ROUND
        # The whole block is drawn whatever the number of events.
        yield {
            "person": _persons(numbers[place == 0], random.spawn(1)[0], rate),
            "auction": _auctions(
                numbers[(place > 0) & (place <= AUCTIONS_OF_A_ROUND)], random.spawn(1)[0], rate
            ),
            "bid": _bids(numbers[place > AUCTIONS_OF_A_ROUND], random.spawn(1)[0], rate),
        }


def times_ms(numbers: np.ndarray, rate: int) -> np.ndarray:
    """Return the event times of events, in ms since the epoch."""
    return BASE_TIME_MS + numbers * 1000 // rate


def persons_until(numbers: np.ndarray) -> np.ndarray:
    """Return how many persons there are when each event happens, the event included."""
    return numbers // EVENTS_OF_A_ROUND + 1


def auctions_until(numbers: np.ndarray) -> np.ndarray:
    """Return how many auctions there are when each event happens, the event included."""
    begun = np.minimum(numbers % EVENTS_OF_A_ROUND, AUCTIONS_OF_A_ROUND)
    return numbers // EVENTS_OF_A_ROUND * AUCTIONS_OF_A_ROUND + begun


def _persons(numbers: np.ndarray, random: np.random.Generator, rate: int) -> pa.RecordBatch:
    size = ROUNDS_OF_A_BLOCK
    first = _chosen(random, FIRST_NAMES.split(","), size)
    last = _chosen(random, LAST_NAMES.split(","), size)
    columns = [
        FIRST_PERSON_ID + persons_until(numbers) - 1,
        [f"{one} {other}" for one, other in zip(first, last, strict=True)],
        [f"{user}@{host}.com" for user, host in zip(*_words(random, size, 7, 5), strict=True)],
        [
            f"{n // 10**12:04} {n // 10**8 % 10**4:04} {n // 10**4 % 10**4:04} {n % 10**4:04}"
            for n in random.integers(10**16, size=size).tolist()
        ],
        _chosen(random, CITIES.split(","), size),
        _chosen(random, STATES, size),
        times_ms(numbers, rate),
        _texts(random, size, 120),
    ]
    return _batch("person", columns, len(numbers))


def _auctions(numbers: np.ndarray, random: np.random.Generator, rate: int) -> pa.RecordBatch:
    count, size = len(numbers), ROUNDS_OF_A_BLOCK * AUCTIONS_OF_A_ROUND
    initial = _prices(random, size)
    times = times_ms(numbers, rate)
    # The time in which so many further auctions begin, at most twice that.
    horizon = AUCTIONS_IN_FLIGHT * EVENTS_OF_A_ROUND // AUCTIONS_OF_A_ROUND * 1000 // rate
    columns = [
        FIRST_AUCTION_ID + auctions_until(numbers) - 1,
        _texts(random, size, 20),
        _texts(random, size, 100),
        initial,
        initial + _prices(random, size),
        times,
        times + 1 + random.integers(2 * horizon, size=size)[:count],
        _persons_of(random, numbers, size, hot_of_four=0),
        FIRST_CATEGORY + random.integers(CATEGORIES, size=size),
        _texts(random, size, 300),
    ]
    return _batch("auction", columns, count)


def _bids(numbers: np.ndarray, random: np.random.Generator, rate: int) -> pa.RecordBatch:
    count, size = len(numbers), ROUNDS_OF_A_BLOCK * BIDS_OF_A_ROUND
    last_auction = auctions_until(numbers) - 1
    oldest = np.maximum(last_auction - AUCTIONS_IN_FLIGHT, 0)
    cold = oldest + (random.random(size)[:count] * (last_auction - oldest + 1 + ID_LEAD)).astype(
        np.int64
    )
    is_hot = random.integers(2, size=size)[:count] > 0
    auction = np.where(is_hot, last_auction // HOT_GROUP * HOT_GROUP, cold)
    bidder = _persons_of(random, numbers, size, hot_of_four=1)
    price = _prices(random, size)
    channel = random.integers(CHANNELS, size=size)
    hot_channel = random.integers(2 * len(HOT_CHANNELS), size=size)
    has_id = random.integers(10, size=size) > 0
    one, two, three = _words(random, size, 5, 5, 5)
    channels, urls = [], []
    for hot, number, with_id, *parts in zip(
        hot_channel.tolist(), channel.tolist(), has_id.tolist(), one, two, three, strict=True
    ):
        url = f"{URL}{parts[0]}/{parts[1]}/{parts[2]}/item.htm?query=1"
        if hot < len(HOT_CHANNELS):
            channels.append(HOT_CHANNELS[hot])
        else:
            channels.append(f"channel-{number}")
            if with_id:
                url += f"&channel_id={number * 2_654_435_761 % 2**31}"
        urls.append(url)
    columns = [
        FIRST_AUCTION_ID + auction,
        bidder,
        price,
        channels,
        urls,
        times_ms(numbers, rate),
        _texts(random, size, 24),
    ]
    return _batch("bid", columns, count)


def _persons_of(
    random: np.random.Generator, numbers: np.ndarray, size: int, hot_of_four: int
) -> np.ndarray:
    """Return persons, three of four the momentarily hot one.

    Args:
        random: The generator.
        numbers: The events, possibly fewer than `size`.
        size: The number of draws.
        hot_of_four: The place of the hot person in each group of ids.
    """
    last = persons_until(numbers) - 1
    active = np.minimum(last + 1, ACTIVE_PERSONS)
    cold = (
        last
        + 1
        - active
        + (random.random(size)[: len(numbers)] * (active + ID_LEAD)).astype(np.int64)
    )
    is_hot = random.integers(4, size=size)[: len(numbers)] > 0
    return FIRST_PERSON_ID + np.where(is_hot, last // HOT_GROUP * HOT_GROUP + hot_of_four, cold)


def _prices(random: np.random.Generator, size: int) -> np.ndarray:
    """Return prices in cents whose logarithms are spread evenly."""
    return np.rint(10.0 ** (random.random(size) * 6) * 100).astype(np.int64)


def _chosen(random: np.random.Generator, texts: list[str], size: int) -> list[str]:
    return [texts[i] for i in random.integers(len(texts), size=size).tolist()]


def _words(random: np.random.Generator, size: int, *lengths: int) -> Iterator[list[str]]:
    """Yield that many words for each length."""
    for length in lengths:
        letters = (
            LETTERS[random.integers(26, size=size * length, dtype=np.uint8)].tobytes().decode()
        )
        yield [letters[i : i + length] for i in range(0, size * length, length)]


def _letters(random: np.random.Generator, size: int) -> str:
    return LETTERS[random.integers(26, size=size, dtype=np.uint8)].tobytes().decode()


def _texts(random: np.random.Generator, size: int, mean: int) -> list[str]:
    """Return texts of letters whose lengths are within a fifth of the mean."""
    spread = mean // 5
    lengths = random.integers(mean - spread, mean + spread + 1, size=size)
    ends = np.cumsum(lengths)
    letters = _letters(random, int(ends[-1]))
    return [letters[a:b] for a, b in zip((ends - lengths).tolist(), ends.tolist(), strict=True)]


def _batch(table: str, columns: list, count: int) -> pa.RecordBatch:
    schema = SCHEMAS[table]
    arrays = [
        pa.array(column[:count], field.type) for column, field in zip(columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def write(
    folder: Path, events: int, seed: int = 1, form: str = "parquet", rate: int = RATE
) -> Path:
    """Write the events into a folder, unless they exist.

    Args:
        folder: Gets a folder for each table: `person`, `auction` and `bid`.
        events: The number of events.
        seed: Events of different seeds differ.
        form: `parquet` or `json`, a line for each row.
        rate: The number of events in a second of event time.

    Returns:
        The folder.
    """
    marker = folder / "written"
    described = f"{form}, {events} events of seed {seed}, {rate} a second\n"
    if marker.exists() and marker.read_text() == described:
        return folder
    for table in SCHEMAS:
        shutil.rmtree(folder / table, ignore_errors=True)
        (folder / table).mkdir(parents=True)
    blocks = -(-events // (ROUNDS_OF_A_BLOCK * EVENTS_OF_A_ROUND))
    together = max(1, blocks // FILES)
    stream = batches(events, seed, rate)
    for number, first in enumerate(range(0, blocks, together)):
        taken = list(itertools.islice(stream, min(together, blocks - first)))
        for name in SCHEMAS:
            table = pa.Table.from_batches([block[name] for block in taken])
            path = folder / name / f"part-{number:05}.{form}"
            if form == "parquet":
                parquet.write_table(table, path, compression="snappy")
            else:
                lines = (json.dumps(row, separators=(",", ":")) for row in table.to_pylist())
                path.write_text("".join(f"{line}\n" for line in lines))
    marker.write_text(described)
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--format", choices=("parquet", "json"), default="parquet")
    arguments = parser.parse_args()
    write(arguments.folder, arguments.events, arguments.seed, arguments.format)
    for name in SCHEMAS:
        files = list((arguments.folder / name).iterdir())
        print(f"{name}: {len(files)} files, {sum(path.stat().st_size for path in files):,} bytes")


if __name__ == "__main__":
    main()
