"""The SQL shell: scripts, options, errors with places, completion; as a process; in cells."""

import os
import pty
import select
import sys
import time
import types

import pytest
from e2e.running import run_program

pytest.importorskip("sqlglot")

from penstock.command_line.sql_command import _run_script
from penstock.errors import ConfigurationError
from penstock.table import EnvironmentSettings, TableEnvironment
from penstock.table.exceptions import SqlParserException, TableException
from penstock.table.shell.interactive import CONTINUED, PROMPT, Completer, InteractiveShell
from penstock.table.shell.shell import SqlShell, StatementError
from penstock.table.sql.scripts import split_script
from support.patience import PATIENCE_S


@pytest.fixture
def lines():
    return []


@pytest.fixture
def shell(monkeypatch, lines):
    monkeypatch.setenv("PENSTOCK_EXECUTION_TARGET", "in-process")
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    tables.get_config().set("parallelism.default", "1")
    return SqlShell(tables, write=lines.append, is_chatty=True)


def run(shell, text):
    shell.run_script(text)


def failed(shell, text):
    with pytest.raises(StatementError) as caught:
        shell.run_script(text)
    return caught.value


def test_scripts_are_split_outside_of_texts_comments_and_sets():
    script = (
        "SELECT ';', 'BEGIN'; -- a ; b\n"
        "EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT CASE WHEN x THEN 1 END FROM b;\n"
        "INSERT INTO c SELECT 1; END;\n /* ; */ SELECT `a;b`  FROM t"
    )
    found = split_script(script)
    assert [each.text for each in found] == [
        "SELECT ';', 'BEGIN'",
        "EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT CASE WHEN x THEN 1 END FROM b;\n"
        "INSERT INTO c SELECT 1; END",
        "SELECT `a;b`  FROM t",
    ]
    assert [(each.line, each.column) for each in found] == [(1, 1), (2, 1), (4, 10)]
    assert [each.is_ended for each in found] == [True, True, False]
    assert [each.text for each in split_script("SELECT CASE a; SELECT 1")] == [
        "SELECT CASE a",
        "SELECT 1",
    ]
    with pytest.raises(SqlParserException, match="Lexical error at line 2, column 8"):
        split_script("\nSELECT 'a;")


def test_changes_are_listed_line_by_line(shell, lines):
    run(
        shell,
        "SET 'sql-client.execution.result-mode' = 'changelog';"
        "SELECT k, SUM(n) FROM (VALUES ('a', 1), ('a', 2)) AS v(k, n) GROUP BY k;",
    )
    assert lines == ["OK", "+I[a, 1]", "-U[a, 1]", "+U[a, 3]"]


def test_the_rows_that_are_left_are_shown_as_a_table(shell, lines):
    run(
        shell,
        "SET 'sql-client.execution.result-mode' = 'table';"
        "SELECT k, SUM(n) AS s FROM (VALUES ('a', 1), ('a', 2)) AS v(k, n) GROUP BY k;",
    )
    assert lines[1:] == [
        "+---+---+",
        "| k | s |",
        "+---+---+",
        "| a | 3 |",
        "+---+---+",
        "1 row in set",
    ]


def test_the_statement_of_an_object_is_shown_without_a_box(shell, lines):
    run(shell, "SHOW CREATE CATALOG default_catalog;")
    assert lines == [
        "CREATE CATALOG `default_catalog`\nWITH (\n  'type' = 'generic_in_memory'\n)\n"
    ]


def test_a_statement_in_several_lines_and_rows_as_lists(shell, lines, capsys):
    typed = iter(
        [
            "SELECT 1 AS `one`,",
            "  'a;",
            "b' AS two\\G",
            "SHOW TABLES\\G",
            "HELP",
            "QUIT;",
            "SELECT 2;",
        ]
    )
    prompts, told = [], []

    def read_line(prompt):
        prompts.append(prompt)
        return next(typed)

    InteractiveShell(shell, read_line=read_line, tell=told.append).run()
    assert prompts == [PROMPT, CONTINUED, CONTINUED, PROMPT, PROMPT, PROMPT]
    assert told == []
    assert lines[0].endswith("1. row +I")
    assert lines[1:4] == ["one: 1", "two: a;\nb", "Empty set"]
    assert shell.has_quit
    assert list(typed) == ["SELECT 2;"]


def test_a_plan_is_compiled_and_executed(shell, lines, tmp_path, capsys):
    run(
        shell,
        "CREATE TABLE t (n INT) WITH ('connector' = 'datagen', 'number-of-rows' = '2');"
        "CREATE TABLE counts (n BIGINT) WITH ('connector' = 'print');"
        f"COMPILE AND EXECUTE PLAN '{tmp_path}/plan.json' FOR\n"
        "INSERT INTO counts SELECT COUNT(*) FROM t; DROP TABLE t; DROP TABLE counts;"
        f"EXECUTE PLAN '{tmp_path}/plan.json'; SHOW TABLES",
    )
    shell.wait_for_jobs()
    printed = capsys.readouterr().out
    assert "Empty set" in printed
    assert printed.count("[2]\n") == 2


def test_the_shell_continues_after_an_error_and_a_cancelled_query(shell, lines):
    typed = iter(["SELECT nope;", "interrupt", "SET 'parallelism.default' = '2';"])
    told = []

    def read_line(prompt):
        del prompt
        line = next(typed, None)
        if line is None:
            raise EOFError
        if line == "interrupt":
            raise KeyboardInterrupt
        return line

    InteractiveShell(shell, read_line=read_line, tell=told.append).run()
    assert len(told) == 1
    assert "line 1, column 8" in told[0]
    assert "^" in told[0]
    assert lines == ["OK"]


def test_places_of_errors_are_those_of_the_script(shell):
    error = failed(
        shell, "SET 'pipeline.name' = 'a';\n\n SELECT\n  nope\n FROM (VALUES (1)) AS v(n)"
    )
    assert error.statement.line == 3
    assert "From line 4, column 3" in str(error)
    assert str(error).splitlines()[-2:] == ["  nope", "  ^"]


def test_options_are_set_listed_and_reset(shell, lines):
    config = shell.environment.get_config()
    run(shell, "SET 'table.local-time-zone' = 'Asia/Tokyo'; SET pipeline.name = 'x y'; SET;")
    assert config.get_local_timezone() == "Asia/Tokyo"
    assert "'pipeline.name' = 'x y'" in lines
    assert shell.environment.planner.is_streaming
    run(shell, "SET 'execution.runtime-mode' = 'batch'")
    assert not shell.environment.planner.is_streaming
    run(shell, "RESET 'pipeline.name'; SET pipeline.jars = x; RESET pipeline.jars; SET")
    assert not lines[-1].startswith("'pipeline")
    run(shell, "RESET")
    assert config.get("pipeline.name", None) is None
    assert shell.environment.planner.is_streaming
    for text in [
        "SET 'sql-client.nothing' = '1'",
        "SET 'sql-client.execution.result-mode' = 'nice'",
        "SET 'table.no-such' = '1'",
    ]:
        assert isinstance(failed(shell, text).error, ConfigurationError), text


def test_jobs_of_insertions_are_listed_and_stopped(shell, lines):
    run(
        shell,
        "CREATE TABLE g (n INT) WITH ('connector' = 'datagen', 'rows-per-second' = '1');"
        "CREATE TABLE b (n INT) WITH ('connector' = 'blackhole'); INSERT INTO b SELECT n FROM g;",
    )
    (job_id,) = shell.jobs
    assert lines[-1] == f"Job {job_id} writes default_catalog.default_database.b"
    assert shell.running_jobs() == [job_id]
    run(shell, f"STOP JOB '{job_id}';")
    shell.jobs[job_id][1].handle.wait(PATIENCE_S)
    assert shell.running_jobs() == []
    assert "no job 'x'" in str(failed(shell, "STOP JOB 'x'"))
    assert "write STOP JOB 'id'" in str(failed(shell, "STOP JOB x"))


def test_an_insertion_that_is_waited_for_ends_with_its_cancelled_wait(shell, monkeypatch):
    def interrupted(result):
        raise KeyboardInterrupt

    monkeypatch.setattr("penstock.table.table_result.table_result.InsertResult.wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(
            shell,
            "CREATE TABLE g (n INT) WITH ('connector' = 'datagen', 'rows-per-second' = '1');"
            "CREATE TABLE b (n INT) WITH ('connector' = 'blackhole');"
            "SET 'table.dml-sync' = 'true'; INSERT INTO b SELECT n FROM g;",
        )
    ((_, client),) = shell.jobs.values()
    client.handle.wait(PATIENCE_S)
    assert shell.running_jobs() == []


def test_a_closed_output_ends_a_script_quietly(shell, capsys):
    def closed(line):
        raise BrokenPipeError

    shell._write = closed
    with pytest.raises(BrokenPipeError):
        _run_script(shell, "-e", "HELP")
    assert capsys.readouterr().err == ""


def test_an_open_statement_is_not_forgotten_silently(shell):
    typed, told = iter(["SHOW", "  TABLES"]), []

    def read_line(prompt):
        line = next(typed, None)
        if line is None:
            raise EOFError
        return line

    InteractiveShell(shell, read_line=read_line, tell=told.append).run()
    assert told == ["The last statement was not executed: it has no ; at its end"]


def test_jars_are_refused(shell):
    error = failed(shell, "ADD JAR '/tmp/x.jar'")
    assert isinstance(error.error, TableException)
    assert "no JVM" in str(error)


def test_names_are_completed(shell):
    run(
        shell,
        "CREATE TABLE orders (order_id INT, price INT) WITH ('connector' = 'datagen');"
        "CREATE TABLE others (other_id INT) WITH ('connector' = 'datagen')",
    )
    completer = Completer(shell, lambda: "SELECT o FROM orders")
    assert completer.completions("ord") == ["ORDER", "order_id", "orders"]
    assert completer("ot", 0) == "others"
    assert completer("ot", 1) is None
    assert completer.completions("char_l") == ["CHAR_LENGTH"]


def test_a_script_as_a_process(tmp_path):
    out = tmp_path / "out"
    script = tmp_path / "script.sql"
    script.write_text(
        f"CREATE TABLE f (n INT) WITH ('connector' = 'filesystem', 'path' = '{out}', "
        "'format' = 'csv');\nINSERT INTO f VALUES (1), (2);\n"
    )
    command = ["-m", "penstock", "sql", "--target", "local", "-p", "1"]
    outcome = run_program([*command, "-i", str(script), "-e", "SELECT 1 AS `one`"])
    assert outcome.code == 0, outcome.err
    assert "|         one |" in outcome.out
    written = [path.read_text() for path in out.iterdir() if path.name[0] not in "._"]
    assert "".join(written) == "1\n2\n"
    script.write_text("SELECT 1;\nSELECT\n  no_such;\nSELECT 2;\n")
    outcome = run_program([*command, "-f", str(script)])
    assert outcome.code == 1
    assert outcome.out.count("row in set") == 1
    assert "script.sql, line 2: [ERROR] ValidationException" in outcome.err
    assert "From line 3, column 3" in outcome.err
    assert "Traceback" not in outcome.err


class Terminal:
    """A shell at a terminal of its own."""

    def __init__(self, *words, **variables):
        self.output = ""
        self.process, self.file = pty.fork()
        if self.process == 0:
            os.environ.update(variables)
            os.execv(sys.executable, [sys.executable, "-m", "penstock", "sql", *words])

    def type(self, text):
        os.write(self.file, text.encode())

    def read_until(self, wanted):
        """Return the output up to a text and store the rest."""
        deadline_s = time.monotonic() + PATIENCE_S
        while wanted not in self.output:
            left_s = deadline_s - time.monotonic()
            assert select.select([self.file], [], [], max(left_s, 0))[0], self.output
            self.output += os.read(self.file, 4096).decode(errors="replace")
        found, _, self.output = self.output.partition(wanted)
        return found

    def status(self):
        status = os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])
        os.close(self.file)
        return status


def test_at_a_terminal_a_query_is_cancelled_and_the_shell_continues(tmp_path):
    history = tmp_path / "history"
    terminal = Terminal("-t", "local", PENSTOCK_SQL_HISTORY=str(history), TERM="dumb")
    terminal.read_until(PROMPT)
    terminal.type(
        "CREATE TABLE g (n INT) WITH ('connector' = 'datagen', 'rows-per-second' = '5');\n"
    )
    terminal.read_until(f"OK\r\n{PROMPT}")
    terminal.type("SELECT n FROM g;\n")
    terminal.read_until("| +I |")
    terminal.type("\x03")
    terminal.read_until("The query was cancelled")
    terminal.read_until(PROMPT)
    terminal.type("SELECT\n 'done' AS word;\n")
    assert CONTINUED in terminal.read_until("1 row in set")
    terminal.read_until(PROMPT)
    terminal.type("QUIT;\n")
    assert terminal.status() == 0
    assert "SELECT n FROM g;" in history.read_text()


def test_cells_of_notebooks_run_statements(monkeypatch, lines):
    pytest.importorskip("pandas")
    from penstock.notebooks import load_ipython_extension

    monkeypatch.setenv("PENSTOCK_EXECUTION_TARGET", "in-process")
    tables = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    magics = {}
    ipython = types.SimpleNamespace(
        user_ns={"tables": tables},
        register_magic_function=lambda function, kind, name: magics.update(
            {name: (kind, function)}
        ),
    )
    load_ipython_extension(ipython)
    kind, run_cell = magics["penstock_sql"]
    assert kind == "line_cell"
    cell = "CREATE VIEW v AS SELECT 1 AS n;\nSELECT n + 1 AS m FROM v;"
    assert run_cell("", cell).to_dict("records") == [{"m": 2}]
    assert run_cell("SELECT n FROM v").to_dict("records") == [{"n": 1}]
    assert run_cell("tables", "DROP VIEW v") is None
    assert tables.list_views() == []
    with pytest.raises(NameError, match="others"):
        run_cell("others", "SELECT 1")
    assert run_cell("", "HELP") is None
    assert run_cell("SET pipeline.name = x") is None
    assert tables.get_config().get("pipeline.name", None) == "x"
    with pytest.raises(TableException, match="line 2, column 8"):
        run_cell("", "\nSELECT nope")


def test_an_interrupted_frame_ends_its_query(shell, monkeypatch):
    pytest.importorskip("pandas")
    results = []

    def interrupted(row_type, batches):
        next(iter(batches))
        raise KeyboardInterrupt

    def query(node):
        results.append(start(node))
        return results[-1]

    tables = shell.environment
    start = tables.jobs.query
    monkeypatch.setattr(tables.jobs, "query", query)
    monkeypatch.setattr("penstock.table.table.frames.frame_of", interrupted)
    tables.execute_sql("CREATE TABLE g (n INT) WITH ('connector' = 'datagen')")
    # The traceback stays alive, as in a notebook.
    with pytest.raises(KeyboardInterrupt) as caught:
        tables.from_path("g").to_pandas()
    assert caught.tb
    status = results[0].get_job_client().get_job_status().result()
    assert status.is_globally_terminal_state()
