"""pyarrow imports pandas in a worker only once the program does."""

import subprocess
import sys
import textwrap

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pandas")
from support.patience import PATIENCE_S

pytestmark = pytest.mark.process

#: Checks in a process of their own, which begin after the installation.
CHECKS = {
    "values do not need pandas": """
        import pyarrow as pa
        pa.array([1, None], pa.int64()), pa.scalar("a", pa.string()), pa.nulls(2).to_pylist()
        assert "pandas" not in sys.modules
        """,
    "rows of columns": """
        import datetime
        import pyarrow as pa
        from penstock.common.typeinfo import Types
        from penstock.formats.arrow_columns import column_values, whole_numbers
        day, moment = datetime.date(1969, 12, 31), datetime.datetime(1969, 12, 31, 23, 59, 59, 5)
        zoned = moment.replace(tzinfo=datetime.UTC)
        for values, kind, declared in (
            ([1, 2], pa.int32(), Types.LONG()),
            ([1.5, -0.0], pa.float64(), Types.DOUBLE()),
            ([day, None], pa.date32(), Types.SQL_DATE()),
            ([moment, None], pa.timestamp("us"), Types.SQL_TIMESTAMP()),
            ([zoned], pa.timestamp("us", "UTC"), Types.SQL_TIMESTAMP()),
        ):
            column = pa.array([*values, values[0]], kind).slice(0, len(values))
            assert column_values(column, declared) == values, declared
        assert list(whole_numbers(pa.array([3, 4], pa.int8()), Types.LONG())) == [3, 4]
        assert "pandas" not in sys.modules
        """,
    "expressions with constants": """
        import pyarrow as pa
        from penstock.columns.kernels import CALLS, compared, computed, contained
        from penstock.expressions.pure_functions import FUNCTIONS
        texts, flags = pa.array(["a", "b"], pa.string()), pa.array([True, False], pa.bool_())
        numbers = pa.array([1, 2], pa.int64())
        assert compared("==", texts, "a").to_pylist() == [True, False]
        assert compared("!=", flags, True).to_pylist() == [False, True]
        assert compared(">", numbers, 1.5).to_pylist() == [False, True]
        assert computed("+", texts, "b").to_pylist() == ["ab", "bb"]
        assert computed("//", numbers, -2).to_pylist() == [-1, -1]
        assert contained("in", texts, ("a", "c")).to_pylist() == [True, False]
        assert contained("in", "a", texts).to_pylist() == [True, False]
        for name, others in (("find", ("a",)), ("replace", ("a", "b")), ("split", ("a",))):
            CALLS[FUNCTIONS["str." + name].call](texts, *others)
        assert "pandas" not in sys.modules
        """,
    "pandas afterwards": """
        import pyarrow as pa
        assert not pa.lib._pandas_api.have_pandas
        import pandas
        assert pa.array(pandas.Series([1.0, None])).null_count == 1
        assert type(pandas.__loader__).__name__ == "SourceFileLoader"
        assert pandas.__spec__.loader is pandas.__loader__
        """,
    "pandas is looked for, but not imported": """
        import importlib.util
        assert importlib.util.find_spec("pandas") is not None
        import pyarrow as pa
        pa.array([1, None], pa.int64())
        assert "pandas" not in sys.modules
        import pandas
        assert pa.array(pandas.Series([1.0, None])).null_count == 1
        """,
    "pandas before": """
        import pandas
        import pyarrow as pa
        assert pa.array(pandas.Series([1.0, None])).null_count == 1
        """,
    "frames": """
        import pyarrow as pa
        assert pa.table({"a": pa.array([1], pa.int64())}).to_pandas()["a"].tolist() == [1]
        """,
}


@pytest.mark.parametrize("check", CHECKS)
def test_arrow_finds_pandas_when_it_is_imported(check):
    program = (
        "import sys\nfrom penstock.taskexecutor.worker import lazy_pandas\nlazy_pandas.install()\n"
    ) + textwrap.dedent(CHECKS[check])
    subprocess.run([sys.executable, "-c", program], check=True, timeout=PATIENCE_S)
