#!/bin/sh
# A short set of tests on versions of CPython, each in a venv of its own under build/pythons.
# Usage: ci/pythons.sh [INTERPRETER ...]; without arguments those that are found, but the main one.
set -eu
cd "$(dirname "$0")/.."
version_of() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])'; }
if [ $# -eq 0 ]; then
    main=$(version_of .venv/bin/python)
    for python in $(sh ci/found_pythons.sh); do
        [ "$(version_of "$python")" = "$main" ] || set -- "$@" "$python"
    done
fi
tests=${TESTS:-tests/unit/expressions tests/unit/taskexecutor tests/contract/test_codec.py
    tests/contract/test_undeclared_values.py tests/contract/test_damaged_values.py
    tests/contract/test_heap_states.py tests/contract/test_interop.py tests/contract/test_keys.py
    tests/contract/test_state_table.py tests/contract/test_value_copies.py
    tests/contract/test_value_layouts.py tests/integration/test_local_programs.py
    tests/integration/test_value_kinds.py}
tested=
for python; do
    version=$(version_of "$python")
    venv=build/pythons/$version
    printf '== %s\n' "$("$python" --version)"
    [ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --upgrade 'pip>=25.1'
    # Without link-time optimisation, as the Rust tests are: the build is half of what this takes.
    MATURIN_PEP517_ARGS='--profile develop' \
        "$venv/bin/python" -m pip install --quiet --force-reinstall --no-deps .
    "$venv/bin/python" -m pip install --quiet '.[spark,tls]'
    "$venv/bin/python" -m pip install --quiet --group test
    "$venv/bin/python" -m pytest --quiet -n 2 $tests
    tested="$tested $version"
done
echo "versions of CPython tested beside the main one:${tested:- none, as no other is here}"
