"""Take the pictures in docs/images by Chromium: ``make screenshots``.

    python ci/screenshots.py [NAME ...]

The pages are those of the site that ``make docs`` has built.  The jobs are that of the tutorial in
Python, after it has read the first day, and that of ``penstock demo``: their dashboards are shown.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from e2e.tutorial import blocks
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
SITE = ROOT / "build" / "docs"
#: The page of the site, the height of its picture, and a text of the page.
PAGES = {
    "gallery": ("gallery.html", 1500, "Sessions of visitors"),
    "tutorial": ("tutorial/python.html", 1100, "1. Read"),
}


def shown(browser, url, height, text):
    """Open a page and return it when it shows a text."""
    page = browser.new_page(viewport={"width": 1280, "height": height}, color_scheme="light")
    page.set_default_timeout(120_000)
    page.goto(url)
    page.get_by_text(text).first.wait_for()
    return page


def penstock(*words, folder):
    environment = {
        **os.environ,
        "PENSTOCK_RUN_DIR": str(folder / "run"),
        "PYTHONPATH": str(ROOT / "python"),
        "TMPDIR": str(folder),
    }
    done = subprocess.run(
        [sys.executable, "-m", "penstock", *words],
        cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    return done.stdout


def picture_of_the_job(browser):
    """Run the job of the tutorial until it has written three hours, and show its dashboard."""
    with tempfile.TemporaryDirectory(prefix="penstock-tutorial-") as name:
        folder = Path(name)
        for fence, text in blocks("python")[0]:
            if " file " in fence:
                (folder / fence.partition(" file ")[2]).write_text(text)
        subprocess.run([sys.executable, "make_day.py", "1"], cwd=folder, check=True)
        submit = ("run", "-d", "--json", "--target", "local", "shop.py", "--follow")
        job = json.loads(penstock(*submit, folder=folder))
        try:
            deadline = time.monotonic() + 120
            while sum(len(path.read_text().splitlines()) for path in parts(folder)) < 9:
                if time.monotonic() > deadline:
                    raise SystemExit(f"the job has not written three hours: {job}")
                time.sleep(0.5)
            page = shown(browser, job["dashboard"], 900, "RUNNING")
            page.wait_for_timeout(3_000)  # so that the rates are those of a resting job
            page.screenshot(path=IMAGES / "tutorial-job.png")
        finally:
            penstock("stop", "-p", "savepoints", "shop", folder=folder)


def panel_of(page, vertex, tab):
    """Open a tab of the panel of a vertex and return the panel."""
    page.locator(".vertex").filter(has_text=vertex).first.click()
    panel = page.get_by_role("complementary")
    panel.get_by_role("link", name=tab, exact=True).click()
    return panel


def pictures_of_the_demo(browser, wanted):
    """Run the demo and show its graph, a flame graph, the state of a key and its failure."""
    with tempfile.TemporaryDirectory(prefix="penstock-demo-pictures-") as name:
        demo = subprocess.Popen(
            [sys.executable, "-m", "penstock", "demo", "--no-browser", "-D", "rest.port=0"],
            cwd=name, text=True, stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT / "python"), "PENSTOCK_RUN_DIR": name},
        )  # fmt: skip
        try:
            [link] = re.findall(r"http://\S+token=\S+", next(filter(has_link, demo.stderr)))
            page = shown(browser, link, 900, "Orders of a shop")
            page.wait_for_timeout(30_000)  # so that charts have a course
            for picture, show in DEMO.items():
                if not wanted or picture in wanted:
                    page.set_viewport_size({"width": 1280, "height": show(page)})
                    page.screenshot(path=IMAGES / f"{picture}.png")
        finally:
            demo.send_signal(signal.SIGINT)
            demo.communicate()


def has_link(line):
    return "token=" in line


def show_graph(page):
    page.get_by_role("link", name="Graph", exact=True).wait_for()
    return 860


def show_flame_graph(page):
    panel = panel_of(page, "Ask the warehouse", "Flame graph")
    panel.get_by_text("samples").wait_for()
    panel.get_by_text("Priced.map").first.wait_for(state="attached")
    return 1250


def show_state(page):
    panel = panel_of(page, "Lowest price", "State")
    panel.locator("[data-lookup=state]").fill("_reduce_state")
    panel.locator("[data-lookup=key]").fill("apples")
    panel.get_by_role("button", name="Look up").click()
    panel.get_by_text("('apples'").wait_for()
    return 900


def show_exceptions(page):
    failed = page.get_by_role("link", name=re.compile(r"Exceptions\D*1"))
    failed.wait_for(timeout=300_000)
    failed.click()
    page.get_by_text("the warehouse does not answer").first.wait_for()
    return 700


#: What to show on the page of the demo's job; each function returns the height of the picture.
DEMO = {
    "dashboard-graph": show_graph,
    "dashboard-flame": show_flame_graph,
    "dashboard-state": show_state,
    "dashboard-exceptions": show_exceptions,
}


def parts(folder):
    """Return the visible files of the tutorial's result."""
    return (folder / "revenue").rglob("part-*")


def main(*wanted):
    chromium = shutil.which("chromium") or sys.exit("missing: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name, (path, height, text) in PAGES.items():
            if not wanted or name in wanted:
                page = shown(browser, (SITE / path).as_uri(), height, text)
                page.screenshot(path=IMAGES / f"{name}.png")
        if not wanted or "tutorial-job" in wanted:
            picture_of_the_job(browser)
        if not wanted or set(wanted) & set(DEMO):
            pictures_of_the_demo(browser, wanted)
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
