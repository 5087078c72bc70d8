#!/bin/sh
# Prints one installed interpreter of each version of CPython that penstock supports.
for version in 3.11 3.12 3.13 3.14; do
    if command -v "python$version" >/dev/null 2>&1 && "python$version" -c '' 2>/dev/null; then
        command -v "python$version"
    else  # pyenv keeps to itself those that are not switched on
        ls -d "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/bin/python 2>/dev/null | tail -1
    fi
done
