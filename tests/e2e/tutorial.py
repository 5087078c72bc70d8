"""Walk the tutorial as printed: write its files, run its commands, and compare their output.

    python tests/e2e/tutorial.py WHEEL

With a wheel, both forms are walked in empty folders and environments that have the wheel, its
dependencies and the packages that the page names; it needs no other package, and Java for Spark.

The fence of a block defines its kind: ``py file NAME`` and ``sql file NAME`` are files, ``sh`` is
run by a shell, and ``text`` is the end of its output.  Blocks without a language are not run, but
that with ``pip install`` names the packages.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PAGES = Path(__file__).resolve().parents[2] / "docs" / "tutorial"
FORMS = {
    "python": ["README.md", "python.md", "python_cluster.md"],
    "sql": ["README.md", "sql.md"],
}
CLUSTER = "## 6. Deploy"


def text_of(form):
    return "".join((PAGES / page).read_text() for page in FORMS[form])


def blocks(form):
    """Return the fences and texts of a form's pages, and where the cluster begins."""
    before, _, after = text_of(form).partition(CLUSTER)
    fenced = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.M | re.S)
    return fenced.findall(before), fenced.findall(after)


def walk(steps, folder, environment):
    """Run blocks in a folder."""
    out = ""
    for fence, text in steps:
        if " file " in fence:
            (folder / fence.partition(" file ")[2]).write_text(text)
        elif fence == "sh":
            ran = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", text],
                cwd=folder, env=environment, capture_output=True, text=True,
            )  # fmt: skip
            assert ran.returncode == 0, f"{text}\n{ran.stdout}\n{ran.stderr}"
            out = ran.stdout
        elif fence == "text":
            assert out.endswith(text), f"printed:\n{text}\nfound:\n{out}"


def walk_with(wheel, form):
    """Walk a form in an empty environment that has a wheel.

    Returns:
        The number of commands, and the versions of penstock and Python that ran them.
    """
    [install] = re.findall(r"^pip install 'penstock-engine(\[.*\])' (.*)$", text_of(form), re.M)
    extras, others = install
    with tempfile.TemporaryDirectory(prefix="penstock-tutorial-") as name:
        folder = Path(name, "shop")
        folder.mkdir()
        venv = folder / "venv"
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        pip = [str(venv / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, f"{wheel}{extras}", *others.split()], check=True)
        environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("PYTHON")},
            "PATH": f"{venv / 'bin'}:{os.environ['PATH']}",
            "PENSTOCK_RUN_DIR": str(Path(name, "run")),
            "TMPDIR": name,
        }
        before, after = blocks(form)
        walk([*before, *after], folder, environment)
        program = "import penstock, sys; print(penstock.__version__, sys.version.split()[0])"
        versions = subprocess.run(
            [str(venv / "bin" / "python"), "-I", "-c", program],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
    return sum(fence == "sh" for fence, _ in [*before, *after]), versions.stdout.split()


def main(wheel):
    for form in FORMS:
        began = time.monotonic()
        count, (penstock, python) = walk_with(Path(wheel).resolve(), form)
        print(
            f"{form}: {count} blocks of commands, all outputs as printed, "
            f"penstock {penstock}, Python {python}, {time.monotonic() - began:.0f} s",
            flush=True,
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
