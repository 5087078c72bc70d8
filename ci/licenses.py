"""THIRD_PARTY_LICENSES: crates that wheels contain in compiled form, with their licences' texts.

Run as a script it updates the file (``make licenses``).  ``--check-wheel WHEEL`` compares the
licences and the SBOM in a wheel, which maturin writes, with the crates that cargo links.

All linked Rust crates are listed, except macros, since these run only in the compiler. Cython's
licence leaves the generated C code to the author of the source, and RocksDB and other native
libraries come with distributions of their own.
"""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WRITTEN = ROOT / "THIRD_PARTY_LICENSES"
#: The platform of the wheels; the linked crates depend on it.
TARGETS = ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu")
NAMES = ("LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE")
HEADER = """\
Third-party software in the wheels of penstock-engine

penstock itself is under the Apache License 2.0, see LICENSE.  The wheels also hold, in compiled
form, Rust's standard library (https://github.com/rust-lang/rust, MIT OR Apache-2.0, copyright of
the Rust Project contributors) and the crates below.  Their licences follow, each text once.

Written by ci/licenses.py from Cargo.lock.
"""


def cargo(*arguments):
    command = ["cargo", arguments[0], "--locked", "--offline", *arguments[1:]]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if ran.returncode != 0:
        sys.exit(f"{' '.join(command)} failed; `cargo fetch --locked` may help:\n{ran.stderr}")
    return ran.stdout


def linked_crates():
    """Return (name, version) of each third-party crate that is linked into a wheel, in order."""
    targets = [argument for target in TARGETS for argument in ("--target", target)]
    tree = ("--package", "penstock-py", "--edges", "normal,no-proc-macro", "--prefix", "none")
    lines = cargo("tree", *tree, *targets, "--format", "{p}").splitlines()
    crates = {tuple(line.split()[:2]) for line in lines if line}
    return sorted(
        (name, version.removeprefix("v"))
        for name, version in crates
        if not name.startswith("penstock-")
    )


def is_license(path):
    is_source = path.suffix in {".rs", ".c", ".h"}
    return path.is_file() and not is_source and path.name.upper().startswith(NAMES)


def rendered():
    packages = {
        (package["name"], package["version"]): package
        for package in json.loads(cargo("metadata", "--format-version", "1"))["packages"]
    }
    listed, texts = [], {}
    for name, version in linked_crates():
        package = packages[name, version]
        listed.append(f"- {name} {version} ({package['license']}), {package['repository']}")
        files = sorted(filter(is_license, Path(package["manifest_path"]).parent.rglob("*")))
        if not files:
            sys.exit(f"the crate {name} {version} has no file with its licence")
        for file in files:
            text = file.read_text().strip()
            # Copies differ in line breaks and indentation.
            _, crates = texts.setdefault(" ".join(text.split()), (text, []))
            if f"{name} {version}" not in crates:
                crates.append(f"{name} {version}")
    rule = "=" * 80
    parts = [HEADER, "\n".join(listed) + "\n"]
    for text, crates in texts.values():
        of = ", ".join(crates)
        parts.append(f"{rule}\nOf {of}:\n\n" + "\n".join(map(str.rstrip, text.splitlines())) + "\n")
    return "\n".join(parts)


def check_wheel(path):
    with zipfile.ZipFile(path) as wheel:
        names = wheel.namelist()
        licenses = [name for name in names if ".dist-info/licenses/" in name]
        if not {"LICENSE", WRITTEN.name} <= {Path(name).name for name in licenses}:
            sys.exit(f"{path} holds the licences {licenses}: check license-files")
        sboms = [json.loads(wheel.read(name)) for name in names if ".dist-info/sboms/" in name]
    listed = {
        (component["name"], component["version"])
        for sbom in sboms
        if sbom["bomFormat"] == "CycloneDX"
        for component in sbom["components"]
    }
    if missing := set(linked_crates()) - listed:
        sys.exit(f"the SBOM in {path} lacks {sorted(missing)}: check [tool.maturin.sbom]")
    print(f"{path}: licences, SBOM of {len(listed)} crates")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--check-wheel"]:
        check_wheel(sys.argv[2])
    else:
        WRITTEN.write_text(rendered())
