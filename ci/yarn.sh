#!/bin/sh
# Fetches the jars of YARN's ResourceManager and NodeManager, which tests start, into build/yarn.
set -eu
cd "$(dirname "$0")/.."
target=build/yarn
[ ! -d "$target/jars" ] || exit 0
command -v mvn >/dev/null || {
    printf 'missing: Maven, which fetches a YARN for the tests\n    install it with: apt-get install maven\n' >&2
    exit 1
}
rm -rf "$target.new"
mvn --quiet --batch-mode --file ci/yarn/pom.xml dependency:copy-dependencies \
    -DincludeScope=runtime -DoutputDirectory="$PWD/$target.new/jars"
mkdir -p "$(dirname "$target")"
rm -rf "$target"
mv "$target.new" "$target"
