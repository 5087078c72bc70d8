"""The dashboard in a real browser: its content, its actions, and its access control."""

import contextlib
import re
import shutil

import pytest
from penstock.common import Types
from penstock.errors import JobCancelledError
from penstock.rest.history import HistoryServer
from support.packages import required
from support.rest_client import Client, FailsOnce, UntilMarked, environment

pytestmark = pytest.mark.browser

PATIENCE_MS = 60_000
WIDTHS = {"desktop": (1280, 900), "wide": (1440, 900), "phone": (390, 844)}
LONG_NAME = "GroupWindowAggregate(" + ", ".join(f"SUM(amount_{n})" for n in range(10)) + ")"


@pytest.fixture(scope="module")
def browser():
    """Yield the system's Chromium; skip the tests without one, unless packages are required."""
    path = next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chrome"))), None)
    required(path, "chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield started
        started.close()


class Page:
    """A page of the dashboard, and its errors."""

    def __init__(self, browser, client, size="desktop", scheme="light"):
        width, height = WIDTHS[size]
        self.context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme
        )
        self.context.set_default_timeout(PATIENCE_MS)
        self.client = client
        self.problems, self.strangers = [], []
        self.page = self.context.new_page()
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("console", self._said)
        self.page.on("request", self._asked)

    def _said(self, message):
        if message.type == "error":
            self.problems.append(message.text)

    def _asked(self, request):
        if not request.url.startswith((self.client.url, "data:")):
            self.strangers.append(request.url)

    def open(self, where="", token=None):
        self.page.goto(f"{self.client.url}/?token={token or self.client.token}#{where}")
        return self

    def go(self, where):
        self.page.evaluate("where => { location.hash = where }", where)

    def sees(self, text, at="#app"):
        found = self.page.locator(at).filter(has_text=re.compile(text, re.DOTALL))
        found.first.wait_for()
        return found.first

    def close(self):
        self.context.close()
        assert self.problems == []
        assert self.strangers == []


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    """Yield a job of three vertices, one of which has failed, with checkpoints."""
    folder = tmp_path_factory.mktemp("dashboard")
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setenv("PENSTOCK_RUN_DIR", str(folder / "run"))
    env = environment(
        **{
            "parallelism.default": "2",
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.delay": "10 ms",
            # The page shows the last ten checkpoints: each is there for long enough to be clicked.
            "execution.checkpointing.interval": "3 s",
            "execution.checkpointing.savepoint-dir": str(folder / "savepoints"),
            "web.refresh-interval": "200 ms",
            "rest.flamegraph.enabled": "true",
            "rest.flamegraph.num-samples": "5",
            "rest.flamegraph.delay-between-samples": "10 ms",
        }
    )
    stream = env.add_source(UntilMarked(folder / "stop"), "Numbers", Types.LONG()).rebalance()
    stream = stream.map(FailsOnce(folder / "failed", "once & <only>"), Types.LONG()).name(
        "<b>Fails</b> & goes on"
    )
    keyed = stream.key_by(lambda n: n % 3, Types.LONG()).reduce(max).name("Largest")
    keyed.filter(lambda n: n < 0).name(LONG_NAME).print()
    job = env.execute_async("<script>alert(1)</script>")
    client = Client.of_last_cluster()
    path = f"/jobs/{job.get_job_id()}"
    client.until(f"{path}/exceptions", lambda found: found["exceptionHistory"]["entries"])
    client.until(path, lambda found: all(v["status"] == "RUNNING" for v in found["vertices"]))
    client.until(f"{path}/checkpoints", lambda found: found["counts"]["completed"] > 0)
    yield client, str(job.get_job_id())
    (folder / "stop").touch()
    job.get_job_execution_result().result()
    monkeypatch.undo()


@pytest.fixture
def shown(browser, watched):
    """Return the page of the job."""
    client, job_id = watched
    page = Page(browser, client).open(f"/jobs/{job_id}")
    page.page.locator(".vertex").first.wait_for()
    yield page
    page.close()


def vertex(page, name):
    return page.page.locator(".vertex").filter(has_text=name)


@pytest.mark.slow
def test_the_graph_shows_what_every_vertex_is_at(shown):
    """Names are shown as text, whatever their characters, and the figures update by themselves."""
    assert shown.page.locator(".vertex").count() == 3
    label = re.compile(r"running · .2.* [1-9][\d.]*\S* rec/s, busy \d+ %")
    shown.page.locator(".vertex").and_(shown.page.get_by_label(label)).first.wait_for()
    shown.sees("Fails", ".vertex")
    assert shown.page.locator(".vertex b, script:not([src])").count() == 0
    shown.sees(r"<script>alert\(1\)</script>", "h1")
    rates = shown.page.locator(".vertex .detail").nth(2)
    first = rates.text_content()
    shown.page.wait_for_function(
        "first => document.querySelectorAll('.vertex .detail')[2].textContent !== first", arg=first
    )
    assert shown.page.locator(".edge").count() == 2
    assert shown.page.title().endswith("running")
    # The token is nowhere visible.
    assert "token" not in shown.page.url


@pytest.mark.slow
def test_a_vertex_is_opened_and_closed_by_keys(shown):
    vertex(shown, "Largest").focus()
    shown.page.keyboard.press("Enter")
    panel = shown.page.get_by_role("complementary")
    panel.get_by_role("table").wait_for()
    assert panel.get_by_role("row").count() == 3
    panel.get_by_role("link", name="Metrics").press("Enter")
    panel.get_by_placeholder(re.compile("Find one of")).fill("numRecordsIn")
    panel.get_by_text("numRecordsInPerSecond", exact=True).wait_for()
    # A chart has a line as soon as there are two values.
    chart = panel.get_by_role("img", name="Recent sums of numRecordsInPerSecond", exact=True)
    chart.locator("polyline").wait_for(state="attached")
    panel.get_by_placeholder(re.compile("Find one of")).fill("currentInputWatermark")
    panel.get_by_text("none yet", exact=True).first.wait_for()
    shown.page.keyboard.press("Escape")
    panel.wait_for(state="detached")


@pytest.mark.slow
def test_everything_is_reached_with_the_tab_key(shown):
    reached = set()
    for _ in range(60):
        shown.page.keyboard.press("Tab")
        reached.add(
            shown.page.evaluate(
                "(document.activeElement.getAttribute('aria-label') "
                "|| document.activeElement.textContent).trim().slice(0, 400)"
            )
        )
    for name in ("TaskExecutors", "Cancel …", "Checkpoints", "Zoom in", "Find a vertex"):
        assert name in reached
    assert any(name.startswith("Records from") for name in reached)
    assert any("Largest" in name and "busy" in name for name in reached)


@pytest.mark.slow
def test_records_on_an_edge_are_shown_when_somebody_asks(shown):
    shown.page.get_by_role("button", name=re.compile("Records from .*Largest")).click()
    panel = shown.page.get_by_role("complementary")
    panel.locator("td .record").first.wait_for()
    texts = panel.locator("td .record").all_text_contents()
    assert len(texts) > 1
    assert all(text.isdigit() for text in texts)
    panel.get_by_role("button", name="Refresh").click()
    panel.get_by_role("button", name="Close").click()
    panel.wait_for(state="detached")


@pytest.mark.slow
def test_the_state_of_a_key_is_looked_up(shown, watched):
    client, job_id = watched
    names = {v["name"]: v["id"] for v in client.get(f"/jobs/{job_id}")["vertices"]}
    of_state = next(id_ for name, id_ in names.items() if "Largest" in name)
    shown.go(f"/jobs/{job_id}/graph/{of_state}/state")
    panel = shown.sees(r"States: \S+ \(", ".lookup")
    state = shown.page.locator("#state-names option").first.get_attribute("value")
    panel.get_by_role("button", name="Look up").click()
    assert shown.page.locator(".lookup td").first.inner_text() == state
    panel.locator("[data-lookup=state]").fill(state)
    panel.locator("[data-lookup=key]").fill("2")
    panel.get_by_role("button", name="Look up").click()
    shown.sees(r"Value.*\d", ".lookup table")


@pytest.mark.slow
def test_flame_graphs(shown):
    vertex(shown, "Fails").click()
    shown.page.get_by_role("link", name="Flame graph").click()
    shown.page.locator(".frame").first.wait_for()
    shown.sees("root", ".frame")
    shown.page.get_by_role(
        "treeitem", name=re.compile("process_next|process_input")
    ).first.wait_for()
    shown.page.get_by_role("button", name="Off CPU").click()
    assert shown.page.get_by_role("button", name="Off CPU").get_attribute("aria-pressed") == "true"


@pytest.mark.slow
def test_checkpoints_with_the_times_of_each_subtask(shown):
    shown.page.get_by_role("link", name="Checkpoints", exact=True).click()
    shown.sees("exactly once · every 3")
    shown.page.locator("td a").first.click()
    shown.page.locator("section.panel td a").first.click()
    table = shown.page.get_by_role("region", name=re.compile("Subtasks of"))
    table.get_by_role("columnheader", name="Alignment").wait_for()
    shown.sees(r"completed.* ms", "section.panel td, section.panel tr")


@pytest.mark.slow
def test_chosen_metrics_are_charted(shown):
    vertex(shown, "Fails").click()
    shown.page.get_by_role("link", name="Metrics").click()
    shown.page.get_by_label("Find a metric").fill("numRecordsOut")
    shown.page.locator(".choose", has_text="numRecordsOut").first.click()
    shown.page.get_by_label("Find a metric").fill("none of them")
    # A browser calls the line of a metric that stays the same hidden, since it has no height.
    shown.page.locator(".chart polyline").wait_for(state="attached")
    shown.sees(r"numRecordsOut.* between \d", ".chart")


@pytest.mark.slow
def test_failures_show_the_line_of_the_program(shown):
    shown.page.get_by_role("link", name=re.compile("Exceptions")).click()
    shown.sees("ArithmeticError: once & <only>", "h3")
    shown.sees(r"raise ArithmeticError\(self\.message\)", ".trace .source")
    shown.sees(r"Created at.*test_dashboard\.py:\d+", ".facts")


@pytest.mark.slow
def test_configuration_and_processes(shown):
    shown.page.get_by_role("link", name="Configuration").click()
    shown.sees("execution.checkpointing.interval.*3 s", "tr")
    shown.page.get_by_role("link", name="TaskExecutors").click()
    shown.sees(r"\d+ %\s*[\d.]+ MiB", "tr")
    shown.page.locator("td a").first.click()
    shown.sees("Memory of the process.*MiB", ".tile")
    shown.sees(r"CPU of the process\d+ %of the machine's \d+ cores", ".tile")
    shown.sees(r"Status\.Machine\.FreeMemory\d{1,3}(,\d{3})+", "tr")
    shown.page.get_by_role("link", name="Threads").click()
    shown.page.locator("summary", has_text="(1/2)").or_(
        shown.page.locator("summary", has_text="(2/2)")
    ).first.click()
    shown.sees("_run_to_terminal_state", "details[open] pre")
    shown.page.get_by_role("link", name="Driver").click()
    shown.page.get_by_role("link", name="Log", exact=True).click()
    shown.sees("restart|WARNING|ERROR|Nothing was logged", ".log")
    shown.page.get_by_role("link", name="Overview").click()
    shown.sees("Running jobs.*Completed jobs", "main")


TABLE_OF_VERTICES = """() => {
  const place = document.querySelector(".scroll[aria-label=Vertices]");
  return { hidden: place.scrollWidth - place.clientWidth,
    tallest: Math.max(...[...place.querySelectorAll("tr")].map((row) => row.offsetHeight)) };
}"""


HIDDEN_COLUMNS = """() => [...document.querySelectorAll(".scroll")]
  .filter((place) => place.scrollWidth > place.clientWidth)
  .map((place) => place.getAttribute("aria-label"))"""


TABLE_OF_SUBTASKS = """() => {
  const place = document.querySelector(".scroll[aria-label=Subtasks]");
  return place.scrollWidth - place.clientWidth;
}"""


@pytest.mark.slow
@pytest.mark.parametrize("size", ["wide", "phone"])
def test_the_table_of_subtasks_fits(size, browser, watched):
    """The panel shows every column; on a phone each subtask is a card of titled values."""
    client, job_id = watched
    page = Page(browser, client, size).open(f"/jobs/{job_id}")
    page.page.locator(".vertex").first.wait_for()
    page.page.locator(".vertex").nth(1).click()
    page.sees("Started", ".side")
    page.page.wait_for_function("document.querySelectorAll('.side .executor').length === 2")
    assert page.page.evaluate(TABLE_OF_SUBTASKS) == 0
    page.close()


@pytest.mark.slow
@pytest.mark.parametrize("size", ["desktop", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_every_screen(size, scheme, browser, watched):
    """No element exceeds the page, and the page is dark if the system is.

    Tables show all their columns, on a phone as a card of each row; nowhere does a long name take
    more than two lines of the table of vertices.
    """
    client, job_id = watched
    page = Page(browser, client, size, scheme).open(f"/jobs/{job_id}")
    page.page.locator(".vertex").first.wait_for()
    vertices = page.page.evaluate(TABLE_OF_VERTICES)
    assert vertices["tallest"] < (300 if size == "phone" else 70)
    assert vertices["hidden"] == 0
    for where in ("graph", "checkpoints", "exceptions", "config"):
        page.go(f"/jobs/{job_id}/{where}")
        page.sees("Records from sources")
        assert page.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), where
        assert page.page.evaluate(HIDDEN_COLUMNS) == [], where
    page.go("/")
    page.sees("Running jobs", "h2")
    assert page.page.evaluate(HIDDEN_COLUMNS) == []
    background = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)[0]"
    assert (page.page.evaluate(background) < 64) == (scheme == "dark")
    page.page.get_by_role("button", name="Dark or light").click()
    assert (page.page.evaluate(background) < 64) == (scheme == "light")
    page.close()


CHART = """async () => {
  const { sparkline } = await import("/page/dom.js");
  const heights = (values) => sparkline(values, "").querySelector("polyline")
    .getAttribute("points").split(" ").map((point) => Number(point.split(",")[1]));
  return [heights([-3, 0, 3]), heights([-2, -1]), heights([0, 0]), heights([0, 5])];
}"""


@pytest.mark.slow
def test_charts_show_values_below_zero(browser, watched):
    page = Page(browser, watched[0]).open("/")
    assert page.page.evaluate(CHART) == [[26, 14, 2], [26, 14], [26, 26], [26, 2]]
    page.close()


LARGE = """async () => {
  const { Graph } = await import("/page/graph.js");
  const nodes = [], vertices = [];
  for (let index = 0; index < 300; index += 1) {
    const inputs = [];
    if (index >= 20) inputs.push({ id: `v${index - 20}`, num: 0, ship_strategy: "HASH" });
    if (index >= 20 && index % 7 === 0)
      inputs.push({ id: `v${index - 17}`, num: 1, ship_strategy: "FORWARD" });
    nodes.push({ id: `v${index}`, parallelism: 4, inputs });
    vertices.push({ id: `v${index}`, name: `Enrich the orders of region ${index}` });
  }
  const place = document.createElement("div");
  document.body.prepend(place);
  const began = performance.now();
  const graph = new Graph({ nodes: nodes.reverse() }, vertices, { chosen() {}, peeked() {} });
  place.append(graph.element);
  await new Promise((resolve) => setTimeout(resolve, 100));
  await new Promise(requestAnimationFrame);
  const boxes = [...graph.places.values()];
  const overlapping = boxes.some((a, i) => boxes.some((b, j) => j > i &&
    Math.abs(a.x - b.x) < 236 && Math.abs(a.y - b.y) < 118));
  const text = graph.svg.querySelector(".vertex .afar");
  return { count: boxes.length, overlapping, size: text.getBoundingClientRect().height,
    far: graph.svg.classList.contains("far"), ms: performance.now() - began,
    map: getComputedStyle(graph.map).display };
}"""


@pytest.mark.slow
def test_a_graph_of_300_vertices_can_be_read(browser, watched):
    """No box covers another, names are readable at once, and a map shows the whole graph."""
    client, _ = watched
    page = Page(browser, client).open("/cluster")
    page.sees("Driver", "h1")
    found = page.page.evaluate(LARGE)
    assert found["count"] == 300
    assert not found["overlapping"]
    assert found["far"]
    assert found["size"] >= 10
    assert found["map"] != "none"
    page.close()


@pytest.mark.slow
def test_the_page_explains_a_missing_token(browser, watched):
    client, _ = watched
    page = Page(browser, client).open("", token="0" * 48)
    page.sees("needs its token", ".banner")
    page.problems = [text for text in page.problems if "401" not in text]
    page.close()


def test_a_job_is_handled_from_its_page(browser, tmp_path, monkeypatch, request):
    """A savepoint and a cancellation; then the page reports the end, and the history lists it."""
    monkeypatch.setenv("PENSTOCK_RUN_DIR", str(tmp_path / "run"))
    archive = str(tmp_path / "archive")
    env = environment(
        **{
            "parallelism.default": "1",
            "web.refresh-interval": "200 ms",
            "jobmanager.archive.fs.dir": archive,
            # The savepoint stays among the last ten checkpoints.
            "execution.checkpointing.interval": "1 min",
        }
    )
    env.add_source(UntilMarked(tmp_path / "stop"), "Numbers", Types.LONG()).rebalance().map(
        lambda n: n, Types.LONG()
    ).filter(lambda n: n < 0).print()
    job = env.execute_async("handled")
    client = Client.of_last_cluster()
    client.until(
        f"/jobs/{job.get_job_id()}",
        lambda found: all(v["status"] == "RUNNING" for v in found["vertices"]),
    )
    page = Page(browser, client).open()
    # Users look at one job at a time.
    page.sees("handled", "h1")
    button = page.page.get_by_role("button", name="Savepoint …", exact=True)
    button.click()
    page.page.get_by_label("Directory").fill(str(tmp_path / "savepoints"))
    page.page.get_by_role("button", name="Take it").click()
    page.sees(f"Savepoint: .*{tmp_path.name}", ".toast")
    assert list((tmp_path / "savepoints").glob("*/_metadata"))
    page.page.get_by_role("button", name="Rescale …").click()
    page.page.get_by_label("Parallelism").fill("2")
    page.page.get_by_role("button", name="Rescale it").click()
    page.sees("The job runs with parallelism 2", ".toast")
    page.sees("^3 of 3", ".tile .value")
    page.page.get_by_role("button", name="Cancel …").click()
    page.page.get_by_role("button", name="Keep the job as it is").click()
    assert client.get(f"/jobs/{job.get_job_id()}/status") == {"status": "RUNNING"}
    page.page.get_by_role("button", name="Cancel …").click()
    page.page.get_by_role("button", name="Cancel it").click()
    page.sees("The cluster has ended", ".banner")
    page.sees("canceled", ".job-head .badge")
    with contextlib.suppress(JobCancelledError):
        job.get_job_execution_result().result()
    page.problems = [text for text in page.problems if "ERR_CONNECTION" not in text]
    page.close()

    server = HistoryServer({"historyserver.archive.fs.dir": archive, "historyserver.web.port": "0"})
    server.start()
    request.addfinalizer(server.close)
    client.url, _, client.token = server.link.partition("/?token=")
    page = Page(browser, client).open("/")
    page.page.get_by_role("link", name="handled").first.click()
    page.sees("canceled", ".job-head .badge")
    page.sees("Numbers", "table")
    assert page.page.get_by_role("link", name="TaskExecutors").count() == 0
    page.go("/jobs/" + str(job.get_job_id()) + "/checkpoints")
    page.sees("savepoint", "main table")
    page.close()
