#!/bin/sh
# Records the results of tests/support/pattern_cases.py from Flink: record.sh FOLDER
#
# FOLDER has the jars of Apache Flink 2.3.0, flink-dist and flink-cep, as the Python package
# apache-flink has them in pyflink/lib.  It needs a JDK of version 17.
set -eu
jars="$1"
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 ../../../support/pattern_cases.py > "$work/cases.json"
javac -nowarn -cp "$jars/*" -d "$work" RecordPatterns.java
timeout 120 java -cp "$work:$jars/*" RecordPatterns "$work/cases.json" ../recorded.json
