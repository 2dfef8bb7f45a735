#!/usr/bin/env bash
# types.sh ROOT: the types of the Python package under mypy's strict checks.
root=$1
source "$root/tests/skip.sh"
command -v mypy >/dev/null || skip "there is no mypy"
work=$(mktemp -d "${TMPDIR:-/tmp}/zenith-types.XXXXXX") || exit 99
trap 'rm -rf "$work"' EXIT
mypy --config-file "$root/python/pyproject.toml" --cache-dir "$work" "$root/python/zenith"
