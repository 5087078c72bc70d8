#!/bin/sh
# A source distribution, and from it a manylinux wheel for each version of CPython, in dist/.
# Usage: ci/wheels.sh [INTERPRETER ...]; by default all installed ones.
# MACHINES='x86_64 aarch64' names machines; by default only this one.  For another machine both
# languages are cross-compiled, and its wheels are checked without being installed.
# zig provides the old glibc to link with; auditwheel checks the tag.
set -eu
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- $(sh ci/found_pythons.sh)
[ $# -gt 0 ] || { echo "no CPython 3.11 or later is here: name one" >&2; exit 1; }
glibc=2.28
here=$(uname -m)
machines=${MACHINES:-$here}
tools=$PWD/build/wheels
version_of() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])'; }
for machine in $machines; do
    if [ ! -d "$(rustc --print target-libdir --target "$machine-unknown-linux-gnu")" ]; then
        echo "Rust's standard library for $machine is missing: rustup target add $machine-unknown-linux-gnu" >&2
        exit 1
    fi
done
[ -x "$tools/venv/bin/python" ] || "$1" -m venv "$tools/venv"
"$tools/venv/bin/python" -m pip install --quiet --upgrade build auditwheel twine ziglang
zig=$("$tools/venv/bin/python" -c 'import pathlib, ziglang; print(pathlib.Path(ziglang.__file__).parent / "zig")')
rm -rf dist "$tools/source"
"$tools/venv/bin/python" -m build --sdist --outdir dist .
mkdir -p "$tools/source"
tar -xzf dist/penstock_engine-*.tar.gz -C "$tools/source" --strip-components=1
for machine in $machines; do
    # Not "python -m ziglang": builds are isolated from the environment that has it.
    printf '#!/bin/sh\nexec "%s" cc -target %s-linux-gnu.%s "$@"\n' "$zig" "$machine" "$glibc" \
        > "$tools/cc-$machine"
    chmod +x "$tools/cc-$machine"
    for python; do
        to=
        [ "$machine" = "$here" ] \
            || to="--target $machine-unknown-linux-gnu --interpreter python$(version_of "$python")"
        # By default zig would strip all symbol names, which flame graphs show, not only debug info.
        CARGO_PROFILE_RELEASE_DEBUG=none CARGO_PROFILE_RELEASE_STRIP=none \
        CC="$tools/cc-$machine" CARGO_ZIGBUILD_ZIG_PATH="$zig" CARGO_TARGET_DIR="$PWD/target" \
        PENSTOCK_BUILD_MACHINE="$machine" \
            MATURIN_PEP517_ARGS="--zig --compatibility manylinux_$(echo "$glibc" | tr . _) $to" \
            "$python" -m pip wheel --quiet --no-deps --wheel-dir dist "$tools/source"
    done
done
"$tools/venv/bin/python" -m twine check --strict dist/*
sh ci/wheel_budget.sh dist/*.whl
for machine in $machines; do
    wanted=manylinux_$(echo "$glibc" | tr . _)_$machine
    for python; do
        tag=cp$(version_of "$python" | tr -d .)
        # An unmatched pattern stays as it is, and the first check names it.
        wheel=$(echo dist/*-"$tag-$tag-$wanted".whl)
        if ! "$tools/venv/bin/auditwheel" show "$wheel" | tr '\n' ' ' \
            | grep -q "consistent *with the *following platform tag: *\"$wanted\""; then
            "$tools/venv/bin/auditwheel" show "$wheel" >&2
            echo "$wheel is no $wanted wheel" >&2
            exit 1
        fi
        "$tools/venv/bin/python" ci/licenses.py --check-wheel "$wheel"
        rm -rf "$tools/try" && mkdir "$tools/try"
        "$tools/venv/bin/python" -m zipfile -e "$wheel" "$tools/try/unpacked"
        grep -q StreamInputProcessor_process_next "$tools"/try/unpacked/penstock/_native/records/input_processor.*.so
        grep -q penstock_network "$tools"/try/unpacked/penstock/_core.*.so
        tried='not installed, as it is for another machine'
        if [ "$machine" = "$here" ]; then
            "$python" -m venv "$tools/try/venv"
            "$tools/try/venv/bin/python" -m pip install --quiet "$wheel"
            tried=$(cd "$tools/try" && venv/bin/python "$OLDPWD/ci/try_wheel.py")
        fi
        echo "$wheel: $wanted, $(wc -c < "$wheel") bytes, has names of functions; $tried"
    done
done
