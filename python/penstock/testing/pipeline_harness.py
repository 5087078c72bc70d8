"""A harness that runs a whole program with virtual time, in the thread of the test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Self

from penstock.common.configuration import Configuration
from penstock.datastream.data_stream.stream import DataStream
from penstock.datastream.data_stream.type_arguments import TypeArgument, type_argument
from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment
from penstock.errors import InvalidProgramError
from penstock.graph.transformations import OneInputTransformation, SourceTransformation
from penstock.metrics.values import read_metrics
from penstock.taskexecutor.compiled import (
    MAX_TIMESTAMP,
    MIN_TIMESTAMP,
    MORE_AVAILABLE,
    SourceOperator,
)
from penstock.taskexecutor.state.snapshots.snapshot import serialised
from penstock.taskexecutor.task.operator_chain import OperatorChain
from penstock.testing.pipeline_layout import lay_out, passing
from penstock.testing.test_output import TestOutput
from penstock.testing.virtual_task import VirtualTask

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.taskexecutor.compiled import Input
    from penstock.taskexecutor.state.snapshots.snapshot import OperatorSnapshot

#: Records that a source may emit before the harness asks it again.
_RECORDS_A_STEP: Final = 1024


class PipelineTestHarness:
    """A program whose sources, sinks and clock are controlled by the test.

    Every operator has one subtask, whatever its parallelism, and passes records to the next one by
    a direct call.  Build the program on `environment`, from `source` to `sink`; then use the
    harness in a ``with`` statement, or call `open` and `close`.

    Attributes:
        environment: The environment in which the program is built.
    """

    def __init__(self, configuration: Mapping[str, str] | None = None) -> None:
        """Create an empty program.

        Args:
            configuration: The job's configuration.
        """
        self.environment: Final = StreamExecutionEnvironment.get_execution_environment(
            Configuration.from_dict(dict(configuration or {}))
        )
        self.environment.set_parallelism(1)
        self._sources: dict[str, int] = {}
        self._sinks: dict[str, int] = {}
        self._outputs: dict[str, TestOutput] = {}
        self._inputs: dict[str, Input] = {}
        self._num_inputs: list[int] = []
        self._task: VirtualTask | None = None
        self._chain: OperatorChain | None = None

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def source(self, name: str, type_info: TypeArgument = None) -> DataStream[Any]:
        """Return a stream of the records passed to `process_element` under this name."""
        self._require_new(name, self._sources)
        transformation = SourceTransformation(
            name, passing(), type_argument(type_info, "PipelineTestHarness.source"), 1
        )
        self._sources[name] = transformation.id
        return DataStream(self.environment, transformation)

    def sink(self, name: str, stream: DataStream[Any]) -> None:
        """Store the output of a stream, for `output` and `values` under this name."""
        self._require_new(name, self._sinks)
        transformation = OneInputTransformation(stream.transformation, name, passing(), None, 1)
        self._sinks[name] = transformation.id
        self.environment.add_operator(transformation)

    def open(self, restored: Mapping[bytes, OperatorSnapshot] | None = None) -> None:
        """Create and open the operators.

        Args:
            restored: A `snapshot` of a harness with the same program.

        Raises:
            InvalidProgramError: The program has iterations.
        """
        graph = self.environment.get_stream_graph()
        settings = graph.settings
        self._task = VirtualTask(
            "pipeline",
            settings.configuration,
            max_parallelism=settings.max_parallelism if settings.max_parallelism > 0 else 128,
        )
        layout = lay_out(graph)
        self._num_inputs = layout.num_inputs
        chain = OperatorChain(layout.chain, self._task.environment, self._task.create_context)
        self._chain = chain
        for name, node in self._sources.items():
            self._inputs[name] = chain.operators[layout.positions[node]].get_input(0)
        for name, node in self._sinks.items():
            self._outputs[name] = TestOutput()
            chain.operators[layout.positions[node]].output = self._outputs[name]
        chain.open(restored or {})

    def close(self) -> None:
        """Close the operators.

        Raises:
            Exception: The exception of one of them.
        """
        chain, self._chain = self._chain, None
        task, self._task = self._task, None
        failure = None if chain is None else chain.close()
        if task is not None:
            task.close()
        if failure is not None:
            raise failure

    def process_element(self, source: str, value: Any, timestamp: int | None = None) -> None:
        """Emit a record of a source; ``timestamp`` in ms, None for none."""
        self._input(source).process(value, MIN_TIMESTAMP if timestamp is None else timestamp)

    def process_watermark(self, source: str, timestamp: int) -> None:
        """Advance the event time of a source."""
        self._input(source).process_watermark(timestamp)

    def process_watermark_status(self, source: str, *, idle: bool) -> None:
        """Mark a source as idle or active."""
        self._input(source).process_status(idle)

    def set_processing_time(self, time_ms: int) -> None:
        """Move the clock and fire the timers that are due."""
        self._opened_task().set_processing_time(time_ms)

    def run_mails(self) -> None:
        """Run the mails that other threads have posted."""
        self._opened_task().run_mails()

    def run_sources(self) -> None:
        """Let the program's own sources emit the records they have now."""
        for operator in self._opened().operators:
            if isinstance(operator, SourceOperator):
                while operator.emit_next(_RECORDS_A_STEP) == MORE_AVAILABLE:
                    pass

    def end_inputs(self) -> None:
        """End event time and all sources, and let the operators emit the rest."""
        chain = self._opened()
        for source in self._inputs.values():
            source.process_watermark(MAX_TIMESTAMP)
        for operator, num_inputs in zip(chain.operators, self._num_inputs, strict=True):
            if isinstance(operator, SourceOperator):
                operator.output.emit_watermark(MAX_TIMESTAMP)
            for number in range(num_inputs):
                operator.end_input(number)
            operator.finish()

    def snapshot(self, checkpoint_id: int, timestamp: int = 0) -> dict[bytes, OperatorSnapshot]:
        """Take a checkpoint of all operators, for `open` of another harness."""
        chain = self._opened()
        chain.prepare_snapshot_pre_barrier(checkpoint_id)
        running = chain.snapshot_state(checkpoint_id, timestamp)
        return {operator_id: serialised(snapshot) for operator_id, snapshot in running.items()}

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Notify the operators that a checkpoint is complete."""
        self._opened().notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Notify the operators that a checkpoint is aborted."""
        self._opened().notify_checkpoint_aborted(checkpoint_id)

    def output(self, sink: str) -> TestOutput:
        """Return the output of a stream: records, timestamps, watermarks."""
        return self._outputs[sink]

    def values(self, sink: str) -> list[Any]:
        """Return the records that a stream has emitted."""
        return [record.value for record in self._outputs[sink].records]

    def metrics(self, operator: str) -> dict[str, int | float | str]:
        """Return the metrics of the operators with this name, one value for each metric's name.

        A meter is its rate; a distribution is one value for each of its figures.

        Raises:
            KeyError: No operator of that name has registered metrics.
        """
        values: dict[str, int | float | str] = {}
        for (_, name), metrics in self._opened_task().environment.operator_metrics.items():
            if name == operator:
                values |= read_metrics(metrics, name).flat()
        if not values:
            raise KeyError(f"no operator {operator!r} has registered metrics")
        return values

    def _opened(self) -> OperatorChain:
        if self._chain is None:
            raise RuntimeError(
                "the harness is not open: use it in a with statement, or call open()"
            )
        return self._chain

    def _opened_task(self) -> VirtualTask:
        self._opened()
        assert self._task is not None, "made with the chain"
        return self._task

    def _input(self, source: str) -> Input:
        self._opened()
        return self._inputs[source]

    def _require_new(self, name: str, names: Mapping[str, int]) -> None:
        if self._chain is not None:
            raise RuntimeError(f"{name!r}: the program cannot change once the harness is open")
        if name in names:
            raise InvalidProgramError(f"the harness already has a source or sink {name!r}")
