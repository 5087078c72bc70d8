"""Names of PyFlink's modules exist in penstock's, even those that PyFlink only imports."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def lines(*arguments):
    done = subprocess.run(
        [sys.executable, *arguments], cwd=HERE, check=True, capture_output=True, text=True
    )
    return done.stdout.split()


@pytest.mark.process
def test_every_name_of_a_module_is_there():
    assert lines("pyflink_oracle/names.py", "missing") == []


def test_names_of_classes_have_no_need_of_the_alias():
    from penstock.datastream import connectors, functions, state

    assert connectors.kafka.DeliveryGuarantee is connectors.DeliveryGuarantee
    assert [one.__name__ for one in (functions.KEY, functions.W, functions.IN)] == [
        "KEY",
        "W",
        "IN",
    ]
    assert state.Time.__name__ == "Time"
    assert not hasattr(functions, "Iterable")


@pytest.mark.process
@pytest.mark.parametrize(
    "line",
    [
        "import pyflink.datastream as flink; flink.functions.MapFunction",
        "from pyflink import common; common.typeinfo.Types.INT()",
        "from pyflink import datastream; datastream.connectors.kafka.KafkaSource",
        "from pyflink.datastream.window import Collection, IN, OUT, W2, KEY, Generic, Trigger",
        "from pyflink.java_gateway import get_gateway",
        "from pyflink.table.table_environment import Schema, List, DataType, udaf",
        "from pyflink.table.types import Row, RowKind",
        "from pyflink.table.udf import ACC, T, AggregateFunction; AggregateFunction[T, ACC]",
        "from pyflink.util.java_utils import get_j_env_configuration, to_jarray",
        "import pyflink; pyflink.version.__version__",
    ],
)
def test_programs_find_names_where_pyflink_has_them(line):
    lines("-c", f"import penstock.as_pyflink\n{line}")


@pytest.mark.process
def test_a_call_into_java_says_what_to_use():
    code = (
        "import penstock.as_pyflink\n"
        "from pyflink.java_gateway import get_gateway\n"
        "try:\n    get_gateway()\n"
        "except NotImplementedError as error:\n    print(error)"
    )
    assert "socket_text_stream" in " ".join(lines("-c", code))


@pytest.mark.process
def test_a_stability_decorator_documents():
    code = (
        "import penstock.as_pyflink\n"
        "from pyflink.util.api_stability_decorators import Experimental, PublicEvolving\n"
        "@PublicEvolving()\n"
        "class Kind:\n"
        '    """Text."""\n'
        "    def method(self):\n"
        '        """More."""\n'
        "print(int('evolving' in Kind.__doc__), int('evolving' in Kind.method.__doc__))"
    )
    assert lines("-c", code) == ["1", "1"]


def test_reasons_are_documented():
    from pyflink_comparison.pyflink_oracle import names

    documented = (HERE.parents[1] / "docs" / "pyflink.md").read_text()
    assert [reason for reason in names.MEANINGLESS if f"- {reason}" not in documented] == []
    assert len(json.loads(names.RECORDED.read_text())) > 50
