#!/bin/sh
# A source distribution, and from it a manylinux wheel for each version of CPython, in dist/.
# Usage: ci/wheels.sh [INTERPRETER ...]; by default all installed ones.
# zig provides the old glibc to link with; auditwheel checks the tag.
set -eu
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- $(sh ci/found_pythons.sh)
glibc=2.28
machine=$(uname -m)
tools=$PWD/build/wheels
[ -x "$tools/venv/bin/python" ] || "$1" -m venv "$tools/venv"
"$tools/venv/bin/python" -m pip install --quiet --upgrade build auditwheel ziglang
zig=$("$tools/venv/bin/python" -c 'import pathlib, ziglang; print(pathlib.Path(ziglang.__file__).parent / "zig")')
# Not "python -m ziglang": builds are isolated from the environment that has it.
printf '#!/bin/sh\nexec "%s" cc -target %s-linux-gnu.%s "$@"\n' "$zig" "$machine" "$glibc" \
    > "$tools/cc"
chmod +x "$tools/cc"
rm -rf dist "$tools/source"
"$tools/venv/bin/python" -m build --sdist --outdir dist .
mkdir -p "$tools/source"
tar -xzf dist/penstock_engine-*.tar.gz -C "$tools/source" --strip-components=1
for python; do
    # By default zig would strip all symbol names, which flame graphs show, not only debug info.
    CARGO_PROFILE_RELEASE_DEBUG=none CARGO_PROFILE_RELEASE_STRIP=none \
    CC="$tools/cc" CARGO_ZIGBUILD_ZIG_PATH="$zig" CARGO_TARGET_DIR="$PWD/target" \
        MATURIN_PEP517_ARGS="--zig --compatibility manylinux_$(echo "$glibc" | tr . _)" \
        "$python" -m pip wheel --quiet --no-deps --wheel-dir dist "$tools/source"
done
most_bytes=10000000
wanted=manylinux_$(echo "$glibc" | tr . _)_$machine
for wheel in dist/*.whl; do
    if ! "$tools/venv/bin/auditwheel" show "$wheel" | tr '\n' ' ' | grep -q "consistent *with the *following platform tag: *\"$wanted\""; then
        "$tools/venv/bin/auditwheel" show "$wheel" >&2
        echo "$wheel is no $wanted wheel" >&2
        exit 1
    fi
    if [ "$(wc -c < "$wheel")" -gt $most_bytes ]; then
        echo "$wheel has $(wc -c < "$wheel") bytes, more than the budget of $most_bytes" >&2
        exit 1
    fi
    "$tools/venv/bin/python" ci/licenses.py --check-wheel "$wheel"
    # It can be imported with only its dependencies installed, and its functions have names.
    version=$(echo "$wheel" | sed 's/.*-cp\([0-9]\)\([0-9]*\)-.*/\1.\2/')
    for python; do
        if [ "$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')" = "$version" ]; then
            rm -rf "$tools/try" && "$python" -m venv "$tools/try"
            "$tools/try/bin/python" -m pip install --quiet "$wheel"
            (cd "$tools" && try/bin/python -c 'import penstock._core, penstock._native.codec, penstock.datastream')
            installed=$(echo "$tools"/try/lib/python*/site-packages/penstock)
            grep -q StreamInputProcessor_process_next "$installed"/_native/input_processor.*.so
            grep -q penstock_network "$installed"/_core.*.so
        fi
    done
    echo "$wheel: $wanted, imports, has names"
done
