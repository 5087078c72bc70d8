"""Small programs for tests of graphs and scheduling, written without the DataStream API."""

from penstock.graph import operators
from penstock.graph import partitioners as p
from penstock.graph import transformations as t
from penstock.graph.job_graph import JobGraph
from penstock.graph.job_graph_generator import JobGraphGenerator
from penstock.graph.settings import GraphSettings
from penstock.graph.stream_graph import StreamGraph
from penstock.graph.stream_graph_generator import StreamGraphGenerator


def identity(value):
    return value


class Program:
    """Collects transformations as an environment does."""

    def __init__(self, **settings):
        self.settings = settings
        self.transformations = []

    def _add(self, transformation):
        self.transformations.append(transformation)
        return transformation

    def source(self, name="Source", parallelism=-1, *, legacy=False, bounded=True):
        kind = t.LegacySourceTransformation if legacy else t.SourceTransformation
        descriptor = operators.NumberSequenceSource(start=1, end=2)
        return self._add(kind(name, descriptor, None, parallelism, bounded=bounded))

    def map(self, input, name="Map", parallelism=-1, *, kind=operators.Map, key_selector=None):
        return self._add(
            t.OneInputTransformation(
                input,
                name,
                kind(identity),
                None,
                parallelism,
                key_selector=key_selector,
            )
        )

    def reduce(self, input, name="Reduce", parallelism=-1):
        keyed = t.PartitionTransformation(input, p.key_group(identity))
        return self.map(keyed, name, parallelism, kind=operators.Reduce, key_selector=identity)

    def co_map(self, first, second, name="Co-Map", parallelism=-1):
        descriptor = operators.CoMap(identity)
        return self._add(
            t.TwoInputTransformation(first, second, name, descriptor, None, parallelism)
        )

    def sink(self, input, name="Print", parallelism=-1):
        descriptor = operators.PrintSink()
        return self._add(t.LegacySinkTransformation(input, name, descriptor, None, parallelism))

    def partition(self, input, partitioner, mode=p.ExchangeMode.UNDEFINED):
        return t.PartitionTransformation(input, partitioner, mode)

    def stream_graph(self, **settings) -> StreamGraph:
        merged = GraphSettings(**{**self.settings, **settings})
        return StreamGraphGenerator(self.transformations, merged).generate()

    def job_graph(self, *, job_id=None, **settings) -> JobGraph:
        return JobGraphGenerator(self.stream_graph(**settings), job_id=job_id).generate()


def word_count(parallelism=2, **settings) -> Program:
    """Source (1) -> Flat Map -> key_by -> Reduce -> Print."""
    program = Program(parallelism=parallelism, **settings)
    words = program.map(program.source("Text", 1), "Flat Map", kind=operators.FlatMap)
    program.sink(program.reduce(words, "Count"))
    return program


def vertex_names(job: JobGraph) -> list[str]:
    return [vertex.name for vertex in job.vertices.values()]


def vertex_named(job: JobGraph, name: str):
    return next(v for v in job.vertices.values() if v.name == name)
