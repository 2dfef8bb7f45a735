#!/bin/sh
# The main job on the bundled picture: encode, decode, compare, write original | reconstruction | difference.
# The program finds the weights; without any, a random network shows speed and plumbing, and says so.
set -eu
cd "$(dirname "$0")/.."
zenith=${1:-build/cli/zenith}
picture=assets/demo.png
result=build/demo.png

if "$zenith" models 2>/dev/null | grep -q "encoder + decoder"; then
    set --
else
    set -- --model random:taesd --seed 1
    echo "No weights were found in \$ZENITH_MODELS, the user's data folder or weights/ (README.md says where to get them)."
    echo "The network below has RANDOM weights: the times are real, the picture is noise."
    echo
fi
echo "\$ zenith reconstruct $picture -o $result --compare $*"
"$zenith" reconstruct "$picture" -o "$result" --compare "$@"
echo
echo "original | reconstruction | difference (amplified): $result"
