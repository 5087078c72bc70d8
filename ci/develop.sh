#!/bin/sh
# The incremental loop: builds only what changed and leaves the package importable from the tree.
# Usage: ci/develop.sh BIN_DIRECTORY
set -eu
bin=$(cd "$1" && pwd)  # absolute: build scripts run in their crates' folders
"$bin/python" -m pip install --quiet 'maturin>=1.13,<2' 'Cython>=3.1,<4' 'setuptools>=77' 'pyspark>=4.0' \
    'click>=8.1' 'cloudpickle>=3.0' 'msgspec>=0.19' 'psutil>=5.9' 'PyYAML>=6.0'
"$bin/python" -m pip install --quiet --group test
site=$("$bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
suffix=$("$bin/python" -c 'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))')
"$bin/python" -m pip uninstall --quiet --yes penstock-engine 2>/dev/null || true
pwd | sed 's|$|/python|' > "$site/penstock-develop.pth"
PYO3_PYTHON="$bin/python" cargo build --quiet --profile develop -p penstock-py
# Replace the file by a rename: a running process keeps the file that it has mapped.
cp target/develop/lib_core.so "python/penstock/_core$suffix.new"
mv "python/penstock/_core$suffix.new" "python/penstock/_core$suffix"
"$bin/python" ci/build_backend.py
