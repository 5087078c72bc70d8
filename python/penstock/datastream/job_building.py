"""JobBuilder: collects the operators of the next job and turns them into a JobGraph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.common.calls.names import checked_name, checked_size
from penstock.common.configuration import Configuration
from penstock.common.execution_config import ExecutionConfig
from penstock.common.options import (
    adaptive,
    changelog,
    checkpointing,
    pipeline,
    state_recovery,
    user_code,
)
from penstock.datastream.checkpoint_config import CheckpointConfig
from penstock.datastream.execution_mode import RuntimeExecutionMode
from penstock.datastream.unexecuted import UnexecutedSinks
from penstock.dependencies.declarations import (
    cached_file,
    cached_files_option,
    declared_archives,
    declared_cached_files,
    existing_path,
    python_archive,
    python_executable,
    python_requirements,
)
from penstock.errors import InvalidProgramError
from penstock.graph import operators
from penstock.graph.settings import DEFAULT_JOB_NAME, GraphSettings
from penstock.graph.stream_graph_generator import StreamGraphGenerator
from penstock.graph.transformations import (
    CommitterTransformation,
    LegacySinkTransformation,
    PartitionTransformation,
    PhysicalTransformation,
    SinkTransformation,
    SinkWriterTransformation,
    SourceTransformation,
    Transformation,
    UnionTransformation,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.common.jobs.job_gateway import OperatorTotals
    from penstock.datastream.output_tag import OutputTag
    from penstock.graph.job_graph import JobGraph
    from penstock.graph.stream_graph import StreamGraph


#: Operators that write results.
_SINKS: Final = (LegacySinkTransformation, SinkTransformation, SinkWriterTransformation)

MAX_CONFIGURATION_BYTES: Final = 4 * 1024 * 1024
"""The limit of a job's options: each task receives all of them in one message."""


def _collects_no_operator(operator: PhysicalTransformation) -> bool:
    """Return whether a collect sink reads a union or a partitioning, which are not operators."""
    if not isinstance(operator.operator, operators.CollectSink):
        return False
    (collected,) = operator.inputs
    if isinstance(collected, PartitionTransformation):
        return collected.partitioner.kind != "CUSTOM"
    return isinstance(collected, UnionTransformation)


class JobBuilder:
    """Collects the operators of a program until it is executed."""

    def __init__(self, configuration: Configuration) -> None:
        """Create a builder for jobs with a configuration, which may still change."""
        self._configuration = configuration
        self._operators: list[PhysicalTransformation] = []
        self._side_outputs: dict[tuple[int, str], OutputTag] = {}
        self._unexecuted = UnexecutedSinks()

    def add(self, operator: PhysicalTransformation) -> None:
        """Add an operator; its sources are found through its inputs."""
        self._operators.append(operator)
        if isinstance(operator, _SINKS):
            self._unexecuted.add(operator)

    @property
    def operators(self) -> list[PhysicalTransformation]:
        """The added operators in order, without sources."""
        return list(self._operators)

    def forget(self, operator: PhysicalTransformation) -> None:
        """Remove one operator, if it is present."""
        self._operators = [other for other in self._operators if other is not operator]

    def clear(self) -> None:
        """Remove all operators."""
        self._operators.clear()
        self._unexecuted.clear()

    def register_side_output(self, operator: PhysicalTransformation, tag: OutputTag) -> None:
        """Register a side output that the program requests.

        Raises:
            InvalidProgramError: It was requested before with another type.
        """
        known = self._side_outputs.setdefault((operator.id, tag.tag_id), tag)
        if known.type_info != tag.type_info:
            raise InvalidProgramError(
                f"the side output {tag.tag_id!r} of {operator.name!r} was requested before as "
                f"{known.type_info}, now as {tag.type_info}"
            )

    def register_cached_file(self, file_path: str, name: str, *, executable: bool) -> None:
        """Register a file that workers find under a name.

        Raises:
            InvalidProgramError: The file does not exist, or another file has the name.
        """
        file = cached_file(name, file_path, executable, "register_cached_file")
        known = declared_cached_files(self._configuration)
        for other in known:
            if other.name == name and other != file:
                raise InvalidProgramError(
                    f"register_cached_file: {name!r} is registered already: {str(other.path)!r}"
                )
        files = tuple(dict.fromkeys((*known, file)))
        user_code.CACHED_FILES.write(self._configuration, cached_files_option(files))

    def add_python_file(self, file_path: str) -> None:
        """Put a path before the others on the workers' module search path.

        Raises:
            InvalidProgramError: It does not exist.
        """
        path = str(existing_path(file_path, "add_python_file"))
        known = user_code.FILES.read(self._configuration)
        user_code.FILES.write(self._configuration, f"{path},{known}" if known else path)

    def add_python_archive(self, archive_path: str, target_dir: str | None) -> None:
        """Register an archive that workers unpack.

        Raises:
            InvalidProgramError: It is not an archive, or another one is unpacked to its folder.
        """
        archive = python_archive(archive_path, target_dir, "add_python_archive")
        for other in declared_archives(self._configuration):
            if other.target == archive.target and other != archive:
                raise InvalidProgramError(
                    f"add_python_archive: {str(other.path)!r} is unpacked to {other.target!r} "
                    "already; give another target_dir"
                )
        known = user_code.ARCHIVES.read(self._configuration)
        entry = f"{archive.path}#{archive.target}"
        user_code.ARCHIVES.write(self._configuration, f"{known},{entry}" if known else entry)

    def set_python_requirements(self, file_path: str, packages: str | None) -> None:
        """Set the requirements file that workers install.

        Raises:
            InvalidProgramError: The file or the folder of packages does not exist.
        """
        found = python_requirements(file_path, packages, "set_python_requirements")
        entry = str(found.file) if found.packages is None else f"{found.file}#{found.packages}"
        user_code.REQUIREMENTS.write(self._configuration, entry)

    def set_python_executable(self, path: str) -> None:
        """Set the workers' interpreter.

        Raises:
            InvalidProgramError: The argument is not a string.
        """
        found = python_executable(path, "set_python_executable")
        user_code.EXECUTABLE.write(self._configuration, found)

    def never_committing(self) -> list[str]:
        """Return sinks that never commit: without checkpoints, commits need an end of the input."""
        takes_checkpoints = CheckpointConfig(self._configuration).get_checkpoint_interval() > 0
        if takes_checkpoints or all(source.bounded for source in self._sources()):
            return []
        return [repr(o.name) for o in self._operators if isinstance(o, CommitterTransformation)]

    def job_graph(
        self,
        job_name: str,
        parallelism: int,
        buffer_timeout_ms: int,
        *,
        sinks_only: bool = False,
    ) -> tuple[JobGraph, Configuration]:
        """Return the job of the collected operators and its configuration, and clear the builder.

        Args:
            job_name: The name in plans, logs and metrics.
            parallelism: The parallelism of operators that set none.
            buffer_timeout_ms: The buffer timeout of operators that set none.
            sinks_only: True to leave out operators that feed no sink, as in execute-and-collect,
                where a program has often built more than it collects.

        Raises:
            InvalidProgramError: There are no operators, they form no valid job, or the
                configuration does not allow the job.
            CheckpointStorageError: The checkpoint that the job starts from cannot be read.
        """
        from penstock.graph.job_graph_generator import JobGraphGenerator

        if sinks_only:
            self._operators = [o for o in self._operators if isinstance(o, SinkTransformation)]
        stream_graph, configuration = self.stream_graph(job_name, parallelism, buffer_timeout_ms)
        key_groups: dict[bytes, int] = {}
        if state_recovery.PATH.is_set(configuration):
            from penstock.checkpoint_storage.recovery import RecoverySource

            source = RecoverySource.of(configuration.to_dict())
            key_groups = {} if source is None else source.key_groups
        self.clear()
        generator = JobGraphGenerator(stream_graph, restored_key_groups=key_groups)
        return generator.generate(), configuration

    def execution_plan(self, parallelism: int, buffer_timeout_ms: int) -> str:
        """Return the plan of the collected operators as JSON."""
        from penstock.graph.plan_json import plan_json

        graph, _ = self.stream_graph(DEFAULT_JOB_NAME, parallelism, buffer_timeout_ms)
        return plan_json(graph)

    def explanation(
        self, parallelism: int, buffer_timeout_ms: int
    ) -> Callable[[OperatorTotals | None], str]:
        """Return a function that describes the collected operators as text and picture.

        Its argument is the totals that the operators of a run have counted, or None before a run.
        """
        from penstock.graph.explain import PlanText, explain
        from penstock.graph.job_graph_generator import JobGraphGenerator
        from penstock.graph.plan_svg import plan_svg

        graph, _ = self.stream_graph(DEFAULT_JOB_NAME, parallelism, buffer_timeout_ms)
        job = JobGraphGenerator(graph).generate()
        return lambda totals: PlanText(explain(graph, job, totals), plan_svg(job))

    def picture(self, parallelism: int, buffer_timeout_ms: int) -> str | None:
        """Return the plan of the collected operators as SVG; None if there are none."""
        from penstock.graph.job_graph_generator import JobGraphGenerator
        from penstock.graph.plan_svg import plan_svg

        if not self._operators:
            return None
        graph, _ = self.stream_graph(DEFAULT_JOB_NAME, parallelism, buffer_timeout_ms)
        return plan_svg(JobGraphGenerator(graph).generate())

    def stream_graph(
        self, job_name: str, parallelism: int, buffer_timeout_ms: int
    ) -> tuple[StreamGraph, Configuration]:
        """Build the graph of the collected operators and the configuration that they run with."""
        self._unexecuted.clear()
        configuration = Configuration(self._configuration)
        batch = self._is_batch()
        is_adaptive = adaptive.SCHEDULER.read(configuration) == "Adaptive"
        if batch and is_adaptive:
            raise InvalidProgramError(
                f"{adaptive.SCHEDULER.key} is Adaptive, but the job runs in BATCH mode, which "
                "cannot change the parallelism: leave the option out, or use STREAMING"
            )
        pipeline.RUNTIME_MODE.write(configuration, "BATCH" if batch else "STREAMING")
        if any(map(_collects_no_operator, self._operators)):
            # As in PyFlink, which runs functions in one interpreter only if an operator yields the
            # collected stream.
            user_code.OPERATOR_CHAINING.write(configuration, value=False)
        _make_folders_absolute(configuration)
        _check_texts(configuration.to_dict())
        config = ExecutionConfig(configuration)
        interval_ms = CheckpointConfig(configuration).get_checkpoint_interval()
        settings = GraphSettings(
            job_name=checked_name("a job", job_name),
            parallelism=parallelism,
            max_parallelism=config.get_max_parallelism(),
            chaining_enabled=pipeline.CHAINING.read(configuration),
            chain_operators_with_different_max_parallelism=(
                pipeline.CHAIN_DIFFERENT_MAX_PARALLELISM.read(configuration)
            ),
            buffer_timeout_ms=buffer_timeout_ms,
            auto_generate_uids=config.has_auto_generated_uids_enabled(),
            batch=batch,
            blocking_shuffles=(
                pipeline.BATCH_SHUFFLE_MODE.read(configuration) == "ALL_EXCHANGES_BLOCKING"
            ),
            configuration=configuration.to_dict(),
            checkpoint_interval_ms=None if interval_ms <= 0 or batch else interval_ms,
            checks_unaligned=(
                interval_ms > 0
                and not batch
                and checkpointing.is_unaligned(configuration.to_dict())
                and not checkpointing.FORCE_UNALIGNED.read(configuration)
            ),
            is_adaptive=is_adaptive,
        )
        return StreamGraphGenerator(self._operators, settings).generate(), configuration

    def _is_batch(self) -> bool:
        mode = RuntimeExecutionMode[pipeline.RUNTIME_MODE.read(self._configuration)]
        if mode is RuntimeExecutionMode.STREAMING:
            return False
        unbounded = self.unbounded_sources()
        if mode is RuntimeExecutionMode.BATCH and unbounded:
            raise InvalidProgramError(
                f"BATCH execution needs finite sources, but {unbounded[0]!r} has no end: use "
                "STREAMING or AUTOMATIC"
            )
        return not unbounded

    def unbounded_sources(self) -> list[str]:
        """Return the names of the sources that may have no end."""
        return [source.name for source in self._sources() if not source.bounded]

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


def _check_texts(configuration: dict[str, str]) -> None:
    """Reject options that are too large to be sent to workers."""
    sizes = {
        key: checked_size("the name of an option", key) + checked_size(f"the option {key!r}", text)
        for key, text in configuration.items()
    }
    size = sum(sizes.values())
    if size > MAX_CONFIGURATION_BYTES:
        largest = max(sizes, key=lambda key: sizes[key])
        raise InvalidProgramError(
            f"the job's options have {size} bytes, of which {largest!r:.80} has {sizes[largest]}; "
            f"the limit is {MAX_CONFIGURATION_BYTES}: register_cached_file() sends files of any "
            "size to the workers"
        )


def _make_folders_absolute(configuration: Configuration) -> None:
    """Make folders absolute: workers and a session's jobmanager have other working directories."""
    for option in (checkpointing.FOLDER, checkpointing.SAVEPOINT_FOLDER, changelog.BASE_PATH):
        folder = option.read(configuration)
        if folder is not None:
            from penstock.checkpoint_storage.file_systems import absolute

            if absolute(folder) != folder:
                option.remove(configuration)
                option.write(configuration, absolute(folder))
