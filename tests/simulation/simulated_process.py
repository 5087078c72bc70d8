"""Processes whose threads take turns: each may be killed, stopped or delayed by its storage.

A thread runs without interruption, except where it touches a file.  There the rest of the world may
continue for a while; the thread continues later, or never.
"""

from penstock.jobmaster.main_thread import QueueUser


class KilledError(BaseException):
    """The process has been killed in the middle of an operation."""


class SimulatedProcess:
    """A driver's process: dead, stopped, or running."""

    def __init__(self, driver):
        self.driver = driver
        self.world = driver.world
        self.is_over = False
        self.stopped_until = 0
        self.main = SimulatedThread(self, "main")

    def __str__(self):
        return str(self.driver)

    def stop_until(self, time_ms):
        """Stop the process, and continue it later."""
        self.world.note(f"{self} stands still until {time_ms} ms")
        self.stopped_until = max(self.stopped_until, time_ms)


class SimulatedThread:
    """One thread of a process: its calls run in order.  It replaces a `MainThread`."""

    is_current = True

    def __init__(self, process, name):
        self.process = process
        self.name = name
        self.is_busy = False
        self.put_off = []
        self._last = 0

    def __str__(self):
        return f"{self.name} of {self.process}"

    # As of MainThread ---------------------------------------------------------------------------

    def user(self, name, limit, *, waits=False, on_error=None):
        # An exception here ends the simulation, which shows it.
        return QueueUser(self, name, limit, on_error, waits=waits)

    def start(self):
        pass

    def close(self, timeout_s=0.0):
        pass

    def put(self, action, user=None):
        def run():
            if user is not None:
                user.gone()
            action()

        world = self.process.world
        self._last = max(self._last, world.now + world.delay(f"turn of {self.name}", (0, 0, 0, 5)))
        world.at(self._last, self, run)

    def put_timer(self, delay_s, timer):
        def run():
            if timer.user.end(timer):
                timer.action()

        world = self.process.world
        world.at(world.now + round(delay_s * 1000), self, run)

    # Turns --------------------------------------------------------------------------------------

    def later(self, delay_ms, action):
        self.process.world.at(self.process.world.now + delay_ms, self, action)
