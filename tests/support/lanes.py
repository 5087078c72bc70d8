"""Lanes of the test suite: tests that start processes, each lane one test after the other."""

from xdist.scheduler import LoadScopeScheduling

#: Folders of tests that start processes, and mostly wait for them.
LANES = ("tests/e2e/", "tests/recovery/", "tests/integration/")


def lane_of(nodeid):
    """Return the lane of a test, or None for a test of one process."""
    return next((lane for lane in LANES if nodeid.startswith(lane)), None)


class Lanes(LoadScopeScheduling):
    """Gives each lane a worker for itself; the other tests run beside them, by file."""

    def _split_scope(self, nodeid):
        return lane_of(nodeid) or nodeid.partition("::")[0]

    def remove_node(self, node):
        """Return the test that ran when the worker crashed; another worker runs those behind it.

        The base class queues the crashed test, too, which may crash every worker in turn.
        """
        units = self.assigned_work[node].values()
        pending = ((unit, test) for unit in units for test in unit if not unit[test])
        unit, crashed = next(pending, (None, None))
        if unit is None:
            return super().remove_node(node)
        unit[crashed] = True
        self.workqueue.update(self.assigned_work.pop(node))
        for other in self.assigned_work:
            self._reschedule(other)
        return crashed
