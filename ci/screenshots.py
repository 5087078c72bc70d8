"""Take the pictures of tutorial and gallery in docs/images by Chromium: ``make screenshots``.

    python ci/screenshots.py [NAME ...]

The pages are those of the site that ``make docs`` has built.  The job is that of the tutorial in
Python, after it has read the first day: the picture shows its dashboard.
"""

import json
import os
import shutil
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
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
