#!/bin/sh
# Fetches the jars that ci/NAME/pom.xml lists, of servers that tests start, into build/NAME/jars:
# jars.sh NAME
set -eu
cd "$(dirname "$0")/.."
name=$1
target=build/$name
[ ! -d "$target/jars" ] || exit 0
command -v mvn >/dev/null || {
    printf 'missing: Maven, which fetches %s for the tests\n    install it with: apt-get install maven\n' "$name" >&2
    exit 1
}
rm -rf "$target.new"
mvn --quiet --batch-mode --file "ci/$name/pom.xml" dependency:copy-dependencies \
    -DincludeScope=runtime -DoutputDirectory="$PWD/$target.new/jars"
mkdir -p "$(dirname "$target")"
rm -rf "$target"
mv "$target.new" "$target"
