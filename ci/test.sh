#!/bin/sh
# Runs the Rust tests beside a command that runs those of Python: test.sh COMMAND...
# Tests of processes mostly wait; compiling the Rust tests uses the time.  The command's output comes
# last, unless Rust tests fail.
set -u
log=build/test-rust.log
mkdir -p build
echo "the Rust tests run beside those of Python, into $log"
nice -n 5 make test-rust >"$log" 2>&1 </dev/null &
rust=$!
trap 'exit 130' INT TERM
trap 'kill "$rust" 2>/dev/null || true' EXIT
status=0
"$@" || status=$?
if ! wait "$rust"; then
    cat "$log"
    status=1
fi
trap - EXIT
exit "$status"
