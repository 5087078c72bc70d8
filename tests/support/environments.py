"""Environments whose jobs run in threads of the test's own process."""

from penstock.common import Configuration
from penstock.datastream import StreamExecutionEnvironment


def in_process(parallelism: int = 1, **options: str) -> StreamExecutionEnvironment:
    """Return an environment with the target ``in-process``.

    Args:
        parallelism: The default parallelism.
        options: Options by key, with underscores instead of dots.
    """
    configuration = Configuration.from_dict(
        {key.replace("_", "."): value for key, value in options.items()}
        | {"execution.target": "in-process"}
    )
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(parallelism)
    return env
