#!/bin/sh
# Runs every static check; if one fails, the others still run and the script fails.
# Usage: ci/lint.sh BIN_DIRECTORY
# They run in parallel, since most use one core; each prints its output when its turn comes.
bin=$1
PATH=$bin:$PATH  # cython-lint looks for pycodestyle there
"$bin/python" -m pip install --quiet --group lint || exit 1
output=$(mktemp -d)
trap 'rm -rf "$output"' EXIT
checks=''
check() {
    name=$1
    shift
    "$@" >"$output/$name" 2>&1 &
    checks="$checks $name:$!"
}
check ruff "$bin/ruff" check --no-cache .
check ruff-format "$bin/ruff" format --check .
check english "$bin/python" ci/english.py
check imports "$bin/lint-imports"
check rustfmt cargo fmt --all --check
check cython-lint "$bin/cython-lint" native
check mypy "$bin/mypy"
check stubtest "$bin/python" -m mypy.stubtest --allowlist ci/stubtest-allowlist.txt penstock._core penstock._native
# The profile of `make build`, whose macros and build scripts it uses.
check clippy cargo clippy --quiet --locked --release --all-targets -- -D warnings
failed=''
for check in $checks; do
    wait "${check#*:}"
    status=$?
    echo "lint: ${check%:*}"
    cat "$output/${check%:*}"
    [ "$status" = 0 ] || failed="$failed ${check%:*}"
done
[ -z "$failed" ] || { echo "lint failed:$failed" >&2; exit 1; }
