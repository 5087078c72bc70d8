"""A notebook shows the plan of an environment, and a job until it has ended.

A separate kernel executes the notebook, as in Jupyter; the cells' output is read from the messages
that the kernel sends to its frontends.
"""

import nbclient
import nbformat
from support.patience import PATIENCE_S

SETUP = """
import threading
import time
from pathlib import Path

from penstock.common import Configuration, Types
from penstock.datastream import SourceFunction, StreamExecutionEnvironment

mark = Path({mark!r})


class Numbers(SourceFunction):
    def run(self, ctx):
        while ctx.is_running() and not mark.exists():
            ctx.collect(1)
            time.sleep(0.001)


env = StreamExecutionEnvironment.get_execution_environment(
    Configuration.from_dict({{"execution.target": "in-process"}})
)
numbers = env.add_source(Numbers(), "numbers", Types.LONG())
numbers.rebalance().filter(lambda n: n < 0).print()
"""

WAIT = """
while not job.get_progress().records:
    time.sleep(0.05)
{then}
for thread in threading.enumerate():
    if thread.name == "job cell":
        thread.join()
"""


def executed(tmp_path, *cells):
    """Return the outputs of the cells of a notebook."""
    notebook = nbformat.v4.new_notebook(
        cells=[
            nbformat.v4.new_code_cell(text)
            for text in (SETUP.format(mark=str(tmp_path / "mark")), *cells)
        ]
    )
    client = nbclient.NotebookClient(notebook, timeout=PATIENCE_S, kernel_name="python3")
    client.execute()
    return [cell.outputs for cell in notebook.cells[1:]], notebook


def test_the_cell_of_an_environment_is_its_plan(tmp_path):
    ((shown,),), _ = executed(tmp_path, "env")
    assert "<svg" in shown.data["image/svg+xml"]
    assert "numbers" in shown.data["image/svg+xml"]


def test_the_cell_of_a_job_is_updated_until_the_job_has_ended(tmp_path):
    hidden = 'import sys; sys.modules["ipywidgets"] = None'
    outputs, _ = executed(
        tmp_path,
        hidden,
        "job = env.execute_async('watched')\njob",
        WAIT.format(then="mark.touch()"),
    )
    (shown,) = outputs[1]
    assert "watched: FINISHED" in shown.data["text/html"]
    assert " records" in shown.data["text/html"]
    assert "cancel()" not in shown.data["text/html"]


def test_a_button_stops_a_job(tmp_path):
    click = (
        "import ipywidgets\n"
        "(button,) = [w for w in ipywidgets.widgets.widget._instances.values()"
        " if isinstance(w, ipywidgets.Button)]\n"
        "button.click()"
    )
    outputs, notebook = executed(
        tmp_path, "job = env.execute_async('watched')\njob", WAIT.format(then=click)
    )
    (shown,) = outputs[0]
    states = notebook.metadata.widgets["application/vnd.jupyter.widget-state+json"]["state"]
    box = states[shown.data["application/vnd.jupyter.widget-view+json"]["model_id"]]["state"]
    text, button = (states[child.removeprefix("IPY_MODEL_")]["state"] for child in box["children"])
    assert "watched: CANCELED" in text["value"]
    assert "JobCancelledError" in text["value"]
    assert (button["description"], button["disabled"]) == ("Stop", True)
