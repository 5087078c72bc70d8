"""One plain Python loop, one core: what the language itself costs (word count)."""

import json
import os
import re
import time
from pathlib import Path

BENCH = json.loads(os.environ["BENCH"])


def mark(**values):
    with Path(BENCH["marks"]).open("a") as out:
        out.write(json.dumps(values) + "\n")


mark(first=time.time_ns())
split = re.compile(r"\W+").split
counts: dict[str, int] = {}
for path in sorted(Path(BENCH["text"]).glob("*.txt")):
    with path.open() as lines:
        for line in lines:
            for word in split(line.lower()):
                if word:
                    counts[word] = counts.get(word, 0) + 1
mark(last=time.time_ns())
