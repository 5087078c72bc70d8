#!/bin/sh
# Every static check; all of them run, and one that fails fails the whole.
# Usage: ci/lint.sh BIN_DIRECTORY
bin=$1
PATH=$bin:$PATH  # cython-lint looks for pycodestyle there
"$bin/python" -m pip install --quiet --group lint || exit 1
failed=''
check() {
    name=$1
    shift
    echo "lint: $name"
    "$@" || failed="$failed $name"
}
check ruff "$bin/ruff" check .
check ruff-format "$bin/ruff" format --check .
check english "$bin/python" ci/english.py
check mypy "$bin/mypy"
check stubtest "$bin/python" -m mypy.stubtest --allowlist ci/stubtest-allowlist.txt penstock._core penstock._native
check cython-lint "$bin/cython-lint" native
check imports "$bin/lint-imports"
check rustfmt cargo fmt --all --check
check clippy cargo clippy --quiet --locked --all-targets -- -D warnings
[ -z "$failed" ] || { echo "lint failed:$failed" >&2; exit 1; }
