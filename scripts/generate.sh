#!/usr/bin/env bash
# generate.sh [ZENITH]: writes completions/ and the OPTIONS section of man/zenith.1 from the tables of the program. Run
# it after changing commands or options. The test cli.manual fails when the files are stale.
set -eu
zenith=${1:-build/cli/zenith}
root=${2:-$(cd "$(dirname "$0")/.." && pwd)}
"$zenith" help --completions bash >"$root/completions/zenith.bash"
"$zenith" help --completions zsh >"$root/completions/_zenith"
"$zenith" help --completions fish >"$root/completions/zenith.fish"
options=$(mktemp)
trap 'rm -f "$options"' EXIT
"$zenith" help --man-options >"$options"
awk -v options="$options" '
    /^\.SH / { inside = 0 }
    /^\.SH OPTIONS/ { inside = 1; while ((getline line < options) > 0) print line }
    !inside' "$root/man/zenith.1" >"$root/man/zenith.1.new"
mv "$root/man/zenith.1.new" "$root/man/zenith.1"
