#!/bin/sh
# A short set of tests on versions of CPython, each in a venv of its own under build/pythons.
# Usage: ci/pythons.sh [INTERPRETER ...]; by default all installed ones except the main one.
set -eu
cd "$(dirname "$0")/.."
version_of() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])'; }
if [ $# -eq 0 ]; then
    main=$(version_of .venv/bin/python)
    for python in $(sh ci/found_pythons.sh); do
        [ "$(version_of "$python")" = "$main" ] || set -- "$@" "$python"
    done
fi
# Tests that depend on the interpreter: compiled modules and values in them, code and syntax trees
# of functions, types of classes, frames, processes; and some jobs.
of_tasks=
for part in async_functions async_operators declared_types forked_process fusion isolation \
    keys_of_operators native_stacks operator_registry operator_state_snapshots operators \
    rocksdb_backend slow_steps state_types timers window_operator; do
    of_tasks="$of_tasks tests/unit/taskexecutor/test_$part.py"
done
tests=${TESTS:-tests/unit/expressions $of_tasks tests/contract/test_codec.py
    tests/contract/test_undeclared_values.py tests/contract/test_damaged_values.py
    tests/contract/test_heap_states.py tests/contract/test_interop.py tests/contract/test_keys.py
    tests/contract/test_state_table.py tests/contract/test_value_copies.py
    tests/contract/test_value_layouts.py tests/contract/test_views.py
    tests/integration/test_local_programs.py tests/integration/test_value_kinds.py}
venv_of() { echo "build/pythons/$(version_of "$1")"; }
# The main environment's pip, for that of another interpreter.
pip_of() {
    interpreter=$(venv_of "$1")/bin/python
    shift
    .venv/bin/python -m pip --python "$interpreter" "$@"
}
tested=
for python; do
    [ -x "$(venv_of "$python")/bin/python" ] || "$python" -m venv --without-pip "$(venv_of "$python")"
    tested="$tested $(version_of "$python")"
done

# Builds the wheels one after the other, since all builds use this folder.  Without optimisation, as
# the build takes most of the time; with the Rust tests' profile, whose dependencies are the same.
wheels() {
    for python; do
        rm -rf "$(venv_of "$python")/wheel"
        MATURIN_PEP517_ARGS='--profile dev' PENSTOCK_CYTHON_OPTIMIZATION=-O0 \
            pip_of "$python" wheel --quiet --no-deps --wheel-dir "$(venv_of "$python")/wheel" .
    done
}
wheels "$@" &
build=$!
trap 'kill "$build" 2>/dev/null || true' EXIT
trap 'exit 1' TERM  # dash runs no EXIT trap for a signal that it does not handle
for python; do
    pip_of "$python" install --quiet --group short
done
wait "$build"
trap - EXIT
for python; do
    venv=$(venv_of "$python")
    printf '== %s\n' "$("$python" --version)"
    pip_of "$python" install --quiet --force-reinstall --no-deps "$venv"/wheel/*.whl
    pip_of "$python" install --quiet "$(echo "$venv"/wheel/*.whl)[columns,tls]"
    # What is left out runs on all interpreters from any of them.
    # shellcheck disable=SC2086 # a list of files
    "$venv/bin/python" -m pytest --quiet -n 2 -m 'not slow' $tests \
        --deselect tests/unit/expressions/test_interpreters.py::test_programs_are_what_functions_compute
done
echo "versions of CPython tested beside the main one:${tested:- none, as no other is here}"
