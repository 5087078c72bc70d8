"""The text of the word-count workload: the same bytes on every machine.

50,000 distinct words of 3 to 9 letters, drawn by a Zipf law of exponent 1 with a fixed seed, 5 to
11 words a line.  The first word of a line is capitalised, some words carry a comma and every line
ends in a full stop, so that lower-casing and splitting matter.  Two part files.
"""

from pathlib import Path

import numpy as np

VOCABULARY = 50_000
SEED = 20240607
_LINES_A_BLOCK = 20_000


def _vocabulary(rng: np.random.Generator) -> np.ndarray:
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words: dict[str, None] = {}
    while len(words) < VOCABULARY:
        words["".join(rng.choice(letters, int(rng.integers(3, 10))))] = None
    return np.array(list(words), dtype=object)


def _write_part(path: Path, rng: np.random.Generator, words: np.ndarray, n_bytes: int) -> int:
    shares = 1.0 / np.arange(1, VOCABULARY + 1)
    cumulative = np.cumsum(shares / shares.sum())
    written = count = 0
    with path.open("w", encoding="ascii") as out:
        while written < n_bytes:
            lengths = rng.integers(5, 12, _LINES_A_BLOCK)
            ranks = np.searchsorted(cumulative, rng.random(int(lengths.sum())))
            drawn = words[np.minimum(ranks, VOCABULARY - 1)]
            lines = []
            at = 0
            for length in lengths.tolist():
                line = drawn[at : at + length].tolist()
                at += length
                line[0] = line[0].capitalize()
                if length > 7:
                    line[3] += ","
                lines.append(" ".join(line) + ".\n")
            written += out.write("".join(lines))
            count += at
    return count


def generate(folder: Path, n_bytes: int = 60_000_000) -> int:
    """Write the text into a folder unless it exists; return its number of words."""
    marker = folder / f".words-{n_bytes}"
    if marker.exists():
        return int(marker.read_text())
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(SEED)
    words = _vocabulary(rng)
    total = sum(
        _write_part(folder / f"part-{index}.txt", rng, words, n_bytes // 2) for index in range(2)
    )
    marker.write_text(str(total))
    return total
