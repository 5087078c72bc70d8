"""Execute-and-collect: results that arrive while the job runs."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from penstock.common.calls.missing_methods import NoJavaMembers
from penstock.common.jobs.collected_batch import elements_of
from penstock.datastream.data_stream.collected_values import conversion_of_elements
from penstock.graph import operators
from penstock.graph.stream_graph_hasher import COLLECT_SINK_UID
from penstock.graph.transformations import LegacySinkTransformation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.common.job_client import JobClient
    from penstock.common.jobs.job_gateway import CollectResults
    from penstock.datastream.environment_execution import EnvironmentExecution
    from penstock.graph.transformations import Transformation

T = TypeVar("T")


class CloseableIterator(NoJavaMembers, Generic[T]):
    """The results of a job; close it, for example by a ``with`` statement.

    If the job fails, the iterator raises the error at the end of the results.  Closing it earlier
    cancels the job.
    """

    def __init__(
        self, results: CollectResults, client: JobClient, decode: Callable[[bytes], T]
    ) -> None:
        """Create an iterator of a job's results; use `DataStream.execute_and_collect`."""
        self._results = results
        self._client = client
        self._elements = self._read(decode)
        self._ended = False
        self._closed = False

    def __repr__(self) -> str:
        return f"<CloseableIterator of the results of job {self._client.handle.job_name!r}>"

    def __enter__(self) -> CloseableIterator[T]:
        return self

    def __exit__(self, exc_type: object, exc_val: object, exc_tb: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        return next(self._elements)

    def next(self) -> T:
        """Return the next result.

        Raises:
            StopIteration: There are no more results.
            Exception: The cause of the job's failure.
        """
        return next(self._elements)

    def get_job_client(self) -> JobClient:
        """Return the client of the job, for example to take a savepoint (beyond PyFlink)."""
        return self._client

    def close(self) -> None:
        """Cancel the job if it still runs, and wait for its end."""
        if self._closed:
            return
        self._closed = True
        # Cancel before results are rejected, so that a sink that notices does not restart the job.
        if not self._ended:
            self._client.handle.cancel()
        self._results.close()
        if not self._ended:
            self._client.handle.wait()

    def _read(self, decode: Callable[[bytes], T]) -> Iterator[T]:
        while (batch := self._results.take()) is not None:
            for element in elements_of(batch):
                yield decode(element)
        if not self._closed:
            self._ended = True
            self._client.handle.result()


def collect_stream(
    environment: EnvironmentExecution, transformation: Transformation, job_name: str | None
) -> CloseableIterator[Any]:
    """Run a program with a sink that sends a transformation's records to this process."""
    from penstock.serialization.type_serializer import JobTypeSerializer

    output_type: Any = transformation.output_type
    collect_id = uuid.uuid4().hex
    sink = LegacySinkTransformation(
        transformation,
        "Data stream collect sink",
        operators.CollectSink(collect_id, output_type),
        None,
        # One subtask, as in Flink: the order of a stream of one subtask is kept, even with a limit.
        1,
    )
    sink.has_own_parallelism = True
    sink.uid = COLLECT_SINK_UID
    environment.add_operator(sink)
    try:
        client = environment.start_collecting(job_name, collect_id)
    except BaseException:
        # A further attempt adds its own sink.
        environment.forget_operator(sink)
        raise
    decode: Callable[[bytes], Any] = JobTypeSerializer[Any](output_type).deserialize
    convert = conversion_of_elements(output_type)
    if convert is None:
        read = decode
    else:

        def read(element: bytes) -> Any:
            return convert(decode(element))

    return CloseableIterator(client.handle.collect(collect_id), client, read)
