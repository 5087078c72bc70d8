"""W1, word count, alone: on Spark and locally, native and pure, beside the installed peers.

    python benchmarks/workloads/word_count.py [--only ENGINE ...] [--scale 0.1] [--repeat 3]

The options are those of ``all_workloads.py``; the results go to
``benchmarks/results/word_count.json``.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import all_workloads

OPTIONS = ["--workload", "W1", "--results", "word_count", "--target", "spark", "--target", "local"]

if __name__ == "__main__":
    all_workloads.main([*OPTIONS, *sys.argv[1:]])
