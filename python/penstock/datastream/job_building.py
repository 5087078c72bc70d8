"""JobBuilder: the operators of the next job, and how they become a JobGraph."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from penstock.common.configuration import Configuration
from penstock.common.execution_config import ExecutionConfig
from penstock.common.options import pipeline, user_code
from penstock.datastream.checkpoint_config import CheckpointConfig
from penstock.datastream.execution_mode import RuntimeExecutionMode
from penstock.errors import InvalidProgramError
from penstock.graph.settings import DEFAULT_JOB_NAME, GraphSettings, SlotSharingGroupResources
from penstock.graph.stream_graph_generator import StreamGraphGenerator
from penstock.graph.transformations import (
    PhysicalTransformation,
    SinkTransformation,
    SourceTransformation,
    Transformation,
)

if TYPE_CHECKING:
    from penstock.common.options.option import Option
    from penstock.datastream.output_tag import OutputTag
    from penstock.datastream.slot_sharing_group import MemorySize, SlotSharingGroup
    from penstock.graph.job_graph import JobGraph
    from penstock.graph.stream_graph import StreamGraph


class JobBuilder:
    """Collects the operators of a program until it is executed."""

    def __init__(self, configuration: Configuration) -> None:
        """Collects for jobs with that configuration, which may still change."""
        self._configuration = configuration
        self._operators: list[PhysicalTransformation] = []
        self._side_outputs: dict[tuple[int, str], OutputTag] = {}
        self._slot_sharing_groups: dict[str, SlotSharingGroup] = {}
        self._cached_files: dict[str, tuple[str, bool]] = {}

    def add(self, operator: PhysicalTransformation) -> None:
        """Adds an operator; sources come with the operators that read them."""
        self._operators.append(operator)

    def clear(self) -> None:
        """Forgets the operators."""
        self._operators.clear()

    def register_side_output(self, operator: PhysicalTransformation, tag: OutputTag) -> None:
        """Notes that a side output is wanted.

        Raises:
            InvalidProgramError: It was wanted before with another type.
        """
        known = self._side_outputs.setdefault((operator.id, tag.tag_id), tag)
        if known.type_info != tag.type_info:
            raise InvalidProgramError(
                f"the side output {tag.tag_id!r} of {operator.name!r} was requested before as "
                f"{known.type_info}, now as {tag.type_info}"
            )

    def register_slot_sharing_group(self, group: SlotSharingGroup) -> None:
        """Notes what a slot of a group needs."""
        self._slot_sharing_groups[group.get_name()] = group

    def register_cached_file(self, file_path: str, name: str, *, executable: bool) -> None:
        """Notes a file that workers find under a name.

        Raises:
            InvalidProgramError: The file does not exist, or the name is taken by another.
        """
        if not Path(file_path).exists():
            raise InvalidProgramError(f"register_cached_file: there is no file {file_path!r}")
        known = self._cached_files.setdefault(name, (file_path, executable))
        if known != (file_path, executable):
            raise InvalidProgramError(f"a cached file {name!r} is registered already: {known[0]!r}")
        entries = (
            f"name:{key},path:{path},executable:{str(flag).lower()}"
            for key, (path, flag) in self._cached_files.items()
        )
        user_code.CACHED_FILES.write(self._configuration, tuple(entries))

    def add_path(self, option: Option[str], path: str) -> None:
        """Appends to a comma-separated list of paths in the configuration."""
        known = option.read(self._configuration)
        option.write(self._configuration, f"{known},{path}" if known else path)

    def job_graph(
        self,
        job_name: str,
        parallelism: int,
        buffer_timeout_ms: int,
        *,
        sinks_only: bool = False,
    ) -> tuple[JobGraph, Configuration]:
        """The job of the operators collected so far, which are forgotten, and its configuration.

        Args:
            job_name: Shown in plans, logs and metrics.
            parallelism: Of operators without one of their own.
            buffer_timeout_ms: Of operators without one of their own.
            sinks_only: Whether operators that feed no sink are left out, as in
                execute-and-collect, where a program has often built more than it asks for.

        Raises:
            InvalidProgramError: There are no operators, or they cannot become a job.
        """
        from penstock.graph.job_graph_generator import JobGraphGenerator

        if sinks_only:
            self._operators = [o for o in self._operators if isinstance(o, SinkTransformation)]
        stream_graph, configuration = self.stream_graph(job_name, parallelism, buffer_timeout_ms)
        self.clear()
        return JobGraphGenerator(stream_graph).generate(), configuration

    def execution_plan(self, parallelism: int, buffer_timeout_ms: int) -> str:
        """The operators collected so far as JSON."""
        from penstock.graph.plan_json import plan_json

        graph, _ = self.stream_graph(DEFAULT_JOB_NAME, parallelism, buffer_timeout_ms)
        return plan_json(graph)

    def explanation(self, parallelism: int, buffer_timeout_ms: int) -> str:
        """The operators collected so far as text, which a notebook shows as a picture."""
        from penstock.graph.explain import PlanText, explain
        from penstock.graph.job_graph_generator import JobGraphGenerator
        from penstock.graph.plan_svg import plan_svg

        graph, _ = self.stream_graph(DEFAULT_JOB_NAME, parallelism, buffer_timeout_ms)
        job = JobGraphGenerator(graph).generate()
        return PlanText(explain(graph, job), plan_svg(job))

    def picture(self, parallelism: int, buffer_timeout_ms: int) -> str | None:
        """The operators collected so far as SVG; None when there are none."""
        from penstock.graph.job_graph_generator import JobGraphGenerator
        from penstock.graph.plan_svg import plan_svg

        if not self._operators:
            return None
        graph, _ = self.stream_graph(DEFAULT_JOB_NAME, parallelism, buffer_timeout_ms)
        return plan_svg(JobGraphGenerator(graph).generate())

    def stream_graph(
        self, job_name: str, parallelism: int, buffer_timeout_ms: int
    ) -> tuple[StreamGraph, Configuration]:
        """The operators collected so far, and the configuration that they run with."""
        configuration = Configuration(self._configuration)
        batch = self._is_batch()
        pipeline.RUNTIME_MODE.write(configuration, "BATCH" if batch else "STREAMING")
        config = ExecutionConfig(configuration)
        interval_ms = CheckpointConfig(configuration).get_checkpoint_interval()
        settings = GraphSettings(
            job_name=job_name,
            parallelism=parallelism,
            max_parallelism=config.get_max_parallelism(),
            chaining_enabled=pipeline.CHAINING.read(configuration),
            chain_operators_with_different_max_parallelism=(
                pipeline.CHAIN_DIFFERENT_MAX_PARALLELISM.read(configuration)
            ),
            buffer_timeout_ms=buffer_timeout_ms,
            auto_generate_uids=config.has_auto_generated_uids_enabled(),
            batch=batch,
            slot_sharing_resources={
                name: _resources(group) for name, group in self._slot_sharing_groups.items()
            },
            configuration=configuration.to_dict(),
            checkpoint_interval_ms=None if interval_ms <= 0 or batch else interval_ms,
        )
        return StreamGraphGenerator(self._operators, settings).generate(), configuration

    def _is_batch(self) -> bool:
        mode = RuntimeExecutionMode[pipeline.RUNTIME_MODE.read(self._configuration)]
        if mode is RuntimeExecutionMode.STREAMING:
            return False
        unbounded = [source.name for source in self._sources() if not source.bounded]
        if mode is RuntimeExecutionMode.BATCH and unbounded:
            raise InvalidProgramError(
                f"BATCH execution needs finite sources, but {unbounded[0]!r} has no end: use "
                "STREAMING or AUTOMATIC"
            )
        return not unbounded

    def _sources(self) -> list[SourceTransformation]:
        sources, seen = [], set()
        waiting: list[Transformation] = list(self._operators)
        while waiting:
            transformation = waiting.pop()
            if transformation.id in seen:
                continue
            seen.add(transformation.id)
            waiting.extend(transformation.inputs)
            if isinstance(transformation, SourceTransformation):
                sources.append(transformation)
        return sources


def _resources(group: SlotSharingGroup) -> SlotSharingGroupResources:
    return SlotSharingGroupResources(
        cpu_cores=group.get_cpu_cores(),
        task_heap_memory_bytes=_bytes(group.get_task_heap_memory()),
        task_off_heap_memory_bytes=_bytes(group.get_task_off_heap_memory()),
        managed_memory_bytes=_bytes(group.get_managed_memory()),
        external_resources=group.get_external_resources(),
    )


def _bytes(size: MemorySize | None) -> int | None:
    return None if size is None else size.get_bytes()
