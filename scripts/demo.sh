#!/bin/sh
# Encodes and decodes the bundled image, compares the result, and writes original | reconstruction | difference. Then
# generates an image with the bundled zenith-mini.
# The program finds the weights. If there are none, it uses random weights and says so.
set -eu
cd "$(dirname "$0")/.."
zenith=${1:-build/cli/zenith}
image=assets/demo.png
result=build/demo.png

if "$zenith" models 2>/dev/null | grep -q "encoder + decoder"; then
    set --
else
    set -- --model random:taesd --seed 1
    echo "No weights were found in \$ZENITH_MODELS, the user's data folder or weights/ (docs/weights.md says where to get them)."
    echo "The network below has RANDOM weights: the times are real, the image is noise."
    echo
fi
echo "\$ zenith reconstruct $image -o $result --compare $*"
"$zenith" reconstruct "$image" -o "$result" --compare "$@"
echo
echo "original | reconstruction | difference (amplified): $result"
echo
if [ -e weights/zenith-mini ]; then
    echo '$ zenith generate "a portrait of a smiling woman" -m weights/zenith-mini --seed 1 -o build/woman.png'
    "$zenith" generate "a portrait of a smiling woman" -m weights/zenith-mini --seed 1 -o build/woman.png
    echo
    echo "128x128, by a model of 24 MB that was trained only on portraits and pets (these look worse); docs/generate.md lists larger ones to download."
fi
