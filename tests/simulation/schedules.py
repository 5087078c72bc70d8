"""Runs schedules, and reduces those that fail: `python -m simulation.schedules job 0 10000`."""

import logging
import sys
import traceback

from simulation.dice import minimal
from simulation.leader_world import LeaderWorld
from simulation.world import World

WORLDS = {"job": World, "leaders": LeaderWorld}


def outcome(seed, allowed=None, trace=None, kind="job"):
    """Return a run and its failure."""
    world = WORLDS[kind](seed, allowed, trace)
    try:
        world.run()
    except Exception as error:
        return world, error
    return world, None


def explanation(seed, kind="job"):
    """Return the smallest run of a seed that fails in the same way."""
    world, error = outcome(seed, kind=kind)
    place = _place(error)
    kept = minimal(
        world.dice.taken, lambda allowed: _place(outcome(seed, allowed, kind=kind)[1]) == place
    )
    trace = []
    world, error = outcome(seed, frozenset(kept), trace, kind)
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
    """Return the place where a run failed, which identifies the failure."""
    if error is None:
        return None
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return type(error), frame.filename, frame.lineno


def main(kind, first, end, step=1):
    """Run seeds up to the first one that fails, and explain it."""
    logging.disable()
    for seed in range(int(first), int(end), int(step)):
        if outcome(seed, kind=kind)[1] is not None:
            print(explanation(seed, kind))
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
