"""Invariants of several drivers of one job (internals M48, M49)."""


class LeaderInvariants:
    """Tracks the publications of drivers and the commits of tasks."""

    def __init__(self, world):
        self.world = world
        self.begun_by = {}  # directory of a checkpoint -> the driver that has created it
        self.completed_by = {}  # checkpoint id -> the driver that has completed it
        self.result_of = None  # the driver that has recorded the job's end
        self.ranges = {}  # subtask -> {start: (end, checkpoint id)} of committed ranges
        self.ends = {}  # subtask -> the end of the committed numbers
        self.latest = None  # the driver that started last
        self.num_begun = self.num_fenced = self.num_late = 0

    def hold(self, holds, text):
        """Fail the world, too, for callers that treat every exception as one of the storage."""
        if not holds:
            self.world.broken = AssertionError(text)
            raise self.world.broken

    def touched(self, driver, how, path):
        """Record that a driver has created or deleted a file."""
        if how == "make_directory" and "/chk-" in path:
            other = self.begun_by.setdefault(path, driver)
            self.hold(other is driver, f"both {other} and {driver} begin {path}")

    def published(self, driver, name):
        """Record that the next driver will find a file."""
        _, kind, *number = f"{name}--".split("-")[:3]
        if kind == "checkpoint":
            other = self.completed_by.setdefault(int(number[0]), driver)
            text = f"both {other} and {driver} complete checkpoint {int(number[0])}"
            self.hold(other is driver, text)
            self.hold(self.result_of is None, "a checkpoint of a job that has ended")
        elif kind == "result":
            self.hold(self.result_of in (None, driver), "the job has ended twice")
            self.result_of = driver

    def job_begins(self, driver):
        """Check a driver that is about to run the job."""
        self.hold(self.result_of is None, f"{driver} runs a job that has ended")
        self.latest = driver
        self.num_begun += 1

    def told(self, task, checkpoint_id):
        """Check a checkpoint that a task is notified of, or starts from."""
        text = f"checkpoint {checkpoint_id} is told of before the next driver would know it"
        self.hold(checkpoint_id in self.completed_by, text)
        self.num_late += task.worker.driver is not self.latest

    def committed(self, task, checkpoint_id, start, end):
        """Check that each number is committed once: repeated commits are equal."""
        ranges = self.ranges.setdefault(task.id, {})
        if start in ranges:
            own = (end, checkpoint_id)
            text = f"{task.worker} commits {own} from {start}, which is committed as"
            self.hold(ranges[start] == own, f"{text} {ranges[start]}")
            return
        committed = self.ends.get(task.id, 0)
        text = f"{task.worker} commits from {start}, committed is up to {committed}"
        self.hold(start == committed, text)
        ranges[start] = (end, checkpoint_id)
        self.ends[task.id] = end

    def check_end(self):
        assert self.result_of is not None, "the job has no end"
        if self.result_of.handle.status().name == "FINISHED":
            ends = [self.ends.get(id_) for id_ in self.world.subtasks]
            assert ends == [self.world.records] * len(ends), f"committed is up to {ends}"
