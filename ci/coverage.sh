#!/bin/sh
# Coverage by line and by branch: of penstock's Python by its tests, of the Rust crates by theirs.
# Usage: ci/coverage.sh BIN_DIRECTORY [PART...]; the parts are python and rust.
# TESTS names the Python tests to run (default: those of unit and contract).
# Reports are written to build/coverage.
set -eu
cd "$(dirname "$0")/.."
bin=$1
shift
report=$PWD/build/coverage
mkdir -p "$report"

python() {
    "$bin/python" -m pip install --quiet --group coverage
    # The native modules are compiled from Python that the pure runtime runs uncompiled, so that
    # its lines count where a test runs both.
    # shellcheck disable=SC2086 # a list of files
    "$bin/python" -m pytest -q -p no:cacheprovider -n 2 --cov \
        --cov-report=term:skip-covered --cov-report="json:$report/python.json" \
        ${TESTS:-tests/unit tests/contract} >"$report/python.txt"
    tail -n 1 "$report/python.txt"
    "$bin/python" -c "
import json, sys
totals = json.load(open('$report/python.json'))['totals']
lines = 100 * totals['covered_lines'] / totals['num_statements']
branches = 100 * totals['covered_branches'] / totals['num_branches']
print(f'python: {lines:.1f} % of {totals[\"num_statements\"]} lines, '
      f'{branches:.1f} % of {totals[\"num_branches\"]} branches')"
}

# The tool of rustc's LLVM, which cannot read profiles of another version.
llvm_tool() {
    version=$(rustc -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')
    tool=$(rustc --print target-libdir)/../bin/$1
    [ -x "$tool" ] || tool=$(command -v "$1-$version") || {
        echo "missing: $1 of LLVM $version; install it with: apt-get install llvm-$version" >&2
        return 1
    }
    echo "$tool"
}

rust() {
    profdata=$(llvm_tool llvm-profdata)
    cov=$(llvm_tool llvm-cov)
    export CARGO_TARGET_DIR=target/coverage RUSTFLAGS='-C instrument-coverage'
    profiles=$PWD/target/coverage/profiles
    rm -rf "$profiles"
    crates='-p penstock-memory -p penstock-network -p penstock-profile'
    # shellcheck disable=SC2086 # a list of options
    LLVM_PROFILE_FILE="$profiles/%p-%m.profraw" \
        cargo test --quiet --locked $crates --lib --tests
    # shellcheck disable=SC2086
    programs=$(cargo test --quiet --locked $crates --lib --tests --no-run --message-format=json |
        "$bin/python" -c "
import json, sys
messages = map(json.loads, sys.stdin)
print(*(m['executable'] for m in messages if m.get('executable') and m['profile']['test']))")
    "$profdata" merge --sparse "$profiles"/*.profraw --output "$report/rust.profdata"
    for crate in memory network profile; do
        # Regions stand for branches, which the stable compiler does not count.
        # shellcheck disable=SC2046,SC2086
        "$cov" report --instr-profile "$report/rust.profdata" \
            $(for program in $programs; do echo --object "$program"; done) \
            --sources "rust/$crate/src" >"$report/rust-$crate.txt"
        awk -v crate="$crate" '/^TOTAL/ {
            print "rust/" crate ": " $10 " of " $8 " lines, " $4 " of " $2 " regions"
        }' "$report/rust-$crate.txt"
    done
}

[ $# -gt 0 ] || set -- python rust
for part; do
    case $part in
        python | rust) ("$part") ;;
        *) echo "no part is called $part" >&2; exit 2 ;;
    esac
done
