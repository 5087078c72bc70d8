#!/bin/sh
# Builds penstock and installs it with the packages of dependency groups.
# Usage: ci/install.sh BIN_DIRECTORY GROUP...
# The build and the installation of packages run in parallel: one compiles, and links on one core,
# while the other fetches and unpacks.
set -eu
bin=$1
shift
for group; do set -- "$@" --group "$group"; shift; done
wheels=build/installed
rm -rf "$wheels"
# The crates of all platforms: a test reads their licences without a network.
cargo fetch --quiet --locked
"$bin/python" -m pip wheel --quiet --no-deps --wheel-dir "$wheels" . &
build=$!
trap 'kill "$build" 2>/dev/null || true' EXIT
"$bin/python" -m pip install --quiet "$@"
wait "$build"
trap - EXIT
sh ci/wheel_budget.sh "$wheels"/*.whl
"$bin/python" -m pip install --quiet --force-reinstall --no-deps "$wheels"/*.whl
# The wheel exists now; this installs penstock's own dependencies.
"$bin/python" -m pip install --quiet "$(echo "$wheels"/*.whl)[columns,spark]"
