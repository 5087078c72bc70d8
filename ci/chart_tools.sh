#!/bin/sh
# Builds Helm, and fetches a validator with the schemas of Kubernetes' objects, into build/chart.
set -eu
cd "$(dirname "$0")/.."
target=$PWD/build/chart
[ ! -d "$target" ] || exit 0
command -v go >/dev/null || {
    printf 'missing: Go, which builds Helm\n    install it with: apt-get install golang-go\n' >&2
    exit 1
}
rm -rf "$target.new"
mkdir -p "$target.new"
GOBIN=$target.new go install helm.sh/helm/v3/cmd/helm@v3.22.0
${PYTHON:-python3} -m pip --quiet install --target "$target.new/schemas" kubernetes-validate==1.37.0
mv "$target.new" "$target"
