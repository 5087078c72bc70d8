#!/bin/sh
# Fails if a wheel is larger than 10 MB.
# Usage: ci/wheel_budget.sh WHEEL...
set -eu
most_bytes=10000000
for wheel; do
    bytes=$(wc -c < "$wheel")
    if [ "$bytes" -gt $most_bytes ]; then
        echo "$wheel has $bytes bytes, more than the budget of $most_bytes" >&2
        exit 1
    fi
done
