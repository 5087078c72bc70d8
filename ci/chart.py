"""Lints and renders the Helm chart, and validates the manifests (``make chart``).

``deploy/kubernetes`` holds the chart rendered with some values, for clusters without Helm and for
the tests, which need no Helm: the first line of each file has the digest of the chart that it was
rendered from.

    python ci/chart.py [--check] [--tools FOLDER]

With ``--check`` nothing is written: a file that would change is an error.
"""

import argparse
import hashlib
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CHART = ROOT / "deploy" / "helm" / "penstock"
RENDERED = ROOT / "deploy" / "kubernetes"
KUBERNETES = "1.37.0"
#: Validates all objects of files strictly: a field that Kubernetes does not know is an error.
VALIDATOR = """
import sys
import kubernetes_validate, yaml
found = [one for name in sys.argv[2:] for one in yaml.safe_load_all(open(name)) if one]
for one in found:
    kubernetes_validate.validate(one, sys.argv[1], strict=True)
print(len(found), "objects are valid")
"""
#: The values of each rendered file; both name a Secret, since a rendered token would be known.
VALUES = {
    "session.yaml": ["token.existingSecret=penstock"],
    "session-high-availability.yaml": [
        "token.existingSecret=penstock",
        "storage.enabled=true",
        "highAvailability.enabled=true",
        "jobmanager.replicas=2",
        "networkPolicy.enabled=true",
    ],
}


def digest():
    """Return the digest of the chart: its files' names and contents."""
    summed = hashlib.sha256()
    for path in sorted(CHART.rglob("*")):
        if path.is_file():
            data = path.read_bytes()
            summed.update(f"{path.relative_to(CHART).as_posix()} {len(data)}\n".encode() + data)
    return summed.hexdigest()


def rendered(helm, name):
    """Return a file of manifests, rendered by Helm."""
    settings = [word for value in VALUES[name] for word in ("--set", value)]
    command = [helm, "template", "penstock", str(CHART), "--kube-version", KUBERNETES, *settings]
    text = run(command)
    described = " ".join(f"--set {value}" for value in VALUES[name])
    return (
        f"# Chart {digest()}\n"
        f"# Rendered by `make chart`: helm template penstock deploy/helm/penstock {described}\n"
        f"{text}"
    )


def run(command, **environment):
    """Run a command and return its output."""
    environment = {**os.environ, **environment}
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    if ran.returncode != 0:
        sys.exit(f"{' '.join(command[:3])} failed:\n{ran.stdout}{ran.stderr}")
    return ran.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    parser.add_argument("--tools", type=Path, default=ROOT / "build" / "chart", metavar="FOLDER")
    options = parser.parse_args()
    helm = str(options.tools / "helm")
    print(run([helm, "lint", "--strict", str(CHART)]), end="")
    for name in VALUES:
        path, text = RENDERED / name, rendered(helm, name)
        if options.check:
            if path.read_text() != text:
                sys.exit(f"{path.relative_to(ROOT)} is not what the chart renders: run make chart")
        else:
            path.write_text(text)
    manifests = sorted(RENDERED.glob("*.yaml"))
    # Spark's operator is not part of Kubernetes: its manifests have a test of their own.
    validate = [sys.executable, "-c", VALIDATOR, KUBERNETES, *map(str, manifests)]
    print(run(validate, PYTHONPATH=str(options.tools / "schemas")), end="")


if __name__ == "__main__":
    main()
