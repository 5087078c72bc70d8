#!/bin/sh
# The proofs that are too slow for every test run: models, Miri, sanitizers and valgrind.
# Usage: ci/proof.sh [PART...]; without parts, all of them.  A part that lacks a tool names it and
# fails.  Builds go to target/proof, apart from those of development, but for the models.
set -eu
cd "$(dirname "$0")/.."
crates='-p penstock-memory -p penstock-network'
loom='penstock-memory/loom penstock-network/loom'
host=$(rustc -vV | sed -n 's/^host: //p')
proof=${CARGO_TARGET_DIR:-target}/proof

models() {
    # More preemptions find more, and take longer; three are explored within seconds.
    export LOOM_MAX_PREEMPTIONS="${LOOM_MAX_PREEMPTIONS:-3}"
    # The same crates for both, and the profile of the other tests, so that nothing is built twice.
    # shellcheck disable=SC2086 # a list of options
    cargo test --quiet --locked $crates --features "$loom" --test 'loom_*'
    # shellcheck disable=SC2086
    cargo test --quiet --locked $crates --features "$loom" --lib loom_models
}

miri() {
    # Miri does not support files, sockets and their threads; it checks memory.
    # Properties run a few cases each: Miri is a thousand times slower than the processor.
    export CARGO_TARGET_DIR="$proof/miri" PROPTEST_CASES=4
    export MIRIFLAGS="${MIRIFLAGS:--Zmiri-disable-isolation}"
    cargo +nightly miri test --locked -p penstock-memory --lib --test memory_segment --test buffer \
        --test buffer_builder_and_consumer --test network_buffer_pool --test local_buffer_pool
    cargo +nightly miri test --locked -p penstock-network --lib -- subpartition task_events event:: \
        --skip blocking
}

# Runs the Rust tests with the sanitizer $1, the standard library instrumented, too.
sanitized() {
    export CARGO_TARGET_DIR="$proof/$1" RUSTFLAGS="-Zsanitizer=$1" RUSTDOCFLAGS="-Zsanitizer=$1"
    # shellcheck disable=SC2086 # a list of options
    cargo +nightly test --locked -Zbuild-std --target "$host" $crates --lib --tests
}

valgrind_memcheck() {
    command -v valgrind >/dev/null || { echo 'valgrind is not installed' >&2; return 1; }
    export CARGO_TARGET_DIR="$proof/valgrind" PROPTEST_CASES=8
    run="CARGO_TARGET_$(echo "$host" | tr 'a-z-' 'A-Z_')_RUNNER"
    # A definite leak is an error like any other.
    export "$run=valgrind --quiet --error-exitcode=99 --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite --fair-sched=yes --suppressions=$PWD/ci/valgrind.supp"
    # shellcheck disable=SC2086 # a list of options
    cargo test --locked --profile develop $crates --lib --tests
}

# Each part changes its environment, so they cannot share a shell.
[ $# -gt 0 ] || set -- models miri address thread valgrind
for part in "$@"; do
    echo "proof: $part"
    case $part in
        models) (models) ;;
        miri) (miri) ;;
        address | thread) (sanitized "$part") ;;
        valgrind) (valgrind_memcheck) ;;
        *) echo "no proof is called $part" >&2; exit 2 ;;
    esac
done
