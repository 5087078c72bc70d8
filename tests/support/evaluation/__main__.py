"""``make fuzz``: compare any number of generated functions, or repeat a single one.

The seed and the case's number determine every case.
"""

import argparse
import resource
import sys
import time

from support.evaluation.comparison import compare

LIMIT_BYTES = 4 << 30


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", default=str(int(time.time())), help="the time by default")
    parser.add_argument("--cases", type=int, default=50_000, help="how many, from number 0")
    parser.add_argument("--case", type=int, help="only this one")
    options = parser.parse_args()
    # A generated function may repeat a string very often: then both sides fail.
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT_BYTES, LIMIT_BYTES))
    numbers = range(options.cases) if options.case is None else [options.case]
    comparisons, different = 0, 0
    for first in range(0, len(numbers), 100):
        made, reports = compare(options.seed, numbers[first : first + 100])
        comparisons += made
        different += len(reports)
        for report in reports:
            print(report, end="\n\n")
    print(f"seed {options.seed}: {comparisons} comparisons, {different} cases differ")
    sys.exit(different > 0)


if __name__ == "__main__":
    main()
