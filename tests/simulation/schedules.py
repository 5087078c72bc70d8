"""Runs schedules, and makes those that fail small: `python -m simulation.schedules 0 10000`."""

import logging
import sys
import traceback

from simulation.dice import minimal
from simulation.world import World


def outcome(seed, allowed=None, trace=None):
    """A run, and what went wrong in it."""
    world = World(seed, allowed, trace)
    try:
        world.run()
    except Exception as error:
        return world, error
    return world, None


def explanation(seed):
    """The smallest run of a seed that fails as it does."""
    world, error = outcome(seed)
    place = _place(error)
    kept = minimal(world.dice.taken, lambda allowed: _place(outcome(seed, allowed)[1]) == place)
    trace = []
    world, error = outcome(seed, frozenset(kept), trace)
    lines = [
        f"seed {seed} fails; PENSTOCK_SIMULATION_SEEDS={seed} runs it alone",
        f"{len(kept)} faults and delays are enough:",
        *(f"  {name} ({count})" for name, count in kept),
        f"with {world.settings}:",
        *trace[-80:],
        "".join(traceback.format_exception(error)),
    ]
    return "\n".join(lines)


def _place(error):
    """Where a run failed, which says what failed."""
    if error is None:
        return None
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return type(error), frame.filename, frame.lineno


def main(first, end, step=1):
    """Ends at the first seed that fails, which it explains."""
    logging.disable()
    for seed in range(first, end, step):
        if outcome(seed)[1] is not None:
            print(explanation(seed))
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
