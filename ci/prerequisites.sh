#!/bin/sh
# Checks the machine's prerequisites; names missing ones with the command that installs them.
missing=0
need() { # what, found?, how to install
    if [ "$2" != yes ]; then
        printf 'missing: %s\n    install it with: %s\n' "$1" "$3" >&2
        missing=1
    fi
}
have() { command -v "$1" >/dev/null 2>&1 && echo yes; }

need 'Python 3.11 or newer with venv' \
    "$([ -n "$PYTHON" ] && "$PYTHON" -c 'import venv, ensurepip' 2>/dev/null && echo yes)" \
    'apt-get install python3 python3-venv python3-dev'
need 'a C compiler (cc)' "$(have cc)" 'apt-get install gcc libc6-dev'
need 'Rust 1.88 or newer (cargo)' \
    "$(cargo --version 2>/dev/null | awk '{split($2, v, "."); if (v[1] > 1 || v[2] >= 88) print "yes"}')" \
    'rustup toolchain install stable (rustup: apt-get install rustup)'
java_major=$("${JAVA_HOME:+$JAVA_HOME/bin/}java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p')
need 'Java 17 or newer, for Spark (java, or JAVA_HOME)' \
    "$([ "${java_major:-0}" -ge 17 ] && echo yes)" 'apt-get install openjdk-17-jre-headless'
exit $missing
