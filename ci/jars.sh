#!/bin/sh
# Fetches the jars of an Apache Kafka broker and a ZooKeeper, which the tests start, into build/kafka.
set -eu
cd "$(dirname "$0")/.."
target=build/kafka
[ ! -d "$target/jars" ] || exit 0
command -v mvn >/dev/null || {
    printf 'missing: Maven, which fetches a Kafka broker for the tests\n    install it with: apt-get install maven\n' >&2
    exit 1
}
rm -rf "$target.new"
mvn --quiet --batch-mode --file ci/kafka/pom.xml dependency:copy-dependencies \
    -DincludeScope=runtime -DoutputDirectory="$PWD/$target.new/jars"
mkdir -p "$(dirname "$target")"
rm -rf "$target"
mv "$target.new" "$target"
