"""The names of the API for programs, and a few shortcuts."""

from __future__ import annotations

import importlib
import time
from typing import TYPE_CHECKING, Any

from pyflink_oracle.outcomes import error_text, outcome_of, text_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyflink_oracle.library import Library


class Flink:
    """PyFlink's or penstock's API: classes by name, and how jobs run here.

    User functions may use it in workers, which import the classes that they name.
    """

    def __init__(self, library: Library) -> None:
        """Store the modules and the settings of a library."""
        self._modules = [f"{library.root}.{name}" for name in library.modules]
        self._settings = dict(library.settings)

    def __getattr__(self, name: str) -> Any:
        """Return a class of the API."""
        if name.startswith("_"):
            raise AttributeError(name)
        for path in reversed(self._modules):
            module = importlib.import_module(path)
            if name in getattr(module, "__all__", dir(module)):
                return getattr(module, name)
        raise AttributeError(name)

    def env(self, parallelism: int = 1, settings: dict[str, str] | None = None) -> Any:
        """Return an environment."""
        configuration = self.Configuration()
        for key, value in (self._settings | (settings or {})).items():
            configuration.set_string(key, value)
        env = self.StreamExecutionEnvironment.get_execution_environment(configuration)
        env.set_parallelism(parallelism)
        return env

    def paced_env(self) -> Any:
        """Return an environment in which each paced record is followed by its watermark."""
        return self.env(
            settings={
                "pipeline.auto-watermark-interval": "10 ms",
                "python.fn-execution.bundle.size": "1",
                "execution.buffer-timeout": "1 ms",
            }
        )

    def batch_env(self, parallelism: int = 1) -> Any:
        """Return an environment for bounded input."""
        env = self.env(parallelism)
        env.set_runtime_mode(self.RuntimeExecutionMode.BATCH)
        return env

    def ints(self, *values: int, env: Any = None) -> Any:
        """Return a stream of numbers with their type."""
        env = env or self.env()
        return env.from_collection(list(values), self.Types.INT())

    def pairs(self, *values: tuple[str, int], env: Any = None) -> Any:
        """Return a stream of pairs of a text and a number."""
        env = env or self.env()
        kind = self.Types.TUPLE([self.Types.STRING(), self.Types.INT()])
        return env.from_collection(list(values), kind)

    def timed(self, stream: Any, moment: Callable[[Any], int], late_ms: int = 100_000) -> Any:
        """Return the stream with timestamps; watermarks stay behind until the end."""

        class Moment(self.TimestampAssigner):  # type: ignore[misc, name-defined]
            def extract_timestamp(self, value, record_timestamp):
                return moment(value)

        strategy = self.WatermarkStrategy.for_bounded_out_of_orderness(
            self.Duration.of_millis(late_ms)
        )
        return stream.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(Moment()))

    def paced(self, stream: Any, seconds: float = 0.25) -> Any:
        """Return the stream with a pause before each record; see `paced_env`."""

        def wait(value: Any) -> Any:
            time.sleep(seconds)
            return value

        return stream.map(wait, stream.get_type()).disable_chaining()

    def paced_pairs(self, values: Any, seconds: float = 0.25) -> Any:
        """Return pairs with pauses, each followed by a watermark of its number."""
        pairs = self.paced(self.pairs(*values, env=self.paced_env()), seconds)
        return self.timed(pairs, lambda v: v[1], 0)

    def collect(self, stream: Any) -> list[str]:
        """Return the stream's records as texts, in their order."""
        with stream.execute_and_collect() as results:
            return [text_of(value) for value in results]

    def sorted(self, stream: Any) -> list[str]:
        """Return the stream's records as sorted texts, if their order is not defined."""
        return sorted(self.collect(stream))

    def collect_each(self, streams: dict[str, Any]) -> dict[str, list[str]]:
        """Return the records of several streams of one job, each sorted."""

        def named(name: str) -> Callable[[Any], tuple[str, str]]:
            return lambda value: (name, text_of(value))

        branches = [stream.map(named(name)) for name, stream in streams.items()]
        found: dict[str, list[str]] = {name: [] for name in streams}
        with branches[0].union(*branches[1:]).execute_and_collect() as results:
            for name, text in results:
                found[name].append(text)
        return {name: sorted(texts) for name, texts in found.items()}

    def outcome(self, action: Callable[[], Any]) -> str:
        """Return the result of a call, or the error that it raises."""
        return outcome_of(action)

    def collected(self, stream: Callable[[], Any]) -> Any:
        """Return the records of a stream that may fail, or the error."""
        try:
            return self.collect(stream())
        except Exception as error:
            return error_text(error)
