#!/usr/bin/env bash
# layering.sh ROOT: reads every #include under src/ cli/ server/ tests/ bench/ examples/ include/ and fails on an arrow that
# points upward. The layers, lowest first; a file may include its own folder and anything in a lower layer:
#
#   0 base   1 kernels   2 tensor   3 io, text, diffusion, graph   4 ops   5 nn   6 models   7 train   8 pipeline
#
# Within kernels/, ref/ and simd/ include nothing of an instruction set's folder (arm/ x86/ cuda/). train/ and the shared
# rooms of pipeline/ include nothing of models/diffae/, and neither they nor the shared commands call its functions. cli/, examples/ and
# tests/cli/ use the public headers only, but cli/ calls server/serve.h. Within cli/, session/ includes nothing of
# commands/, and files/, options/ and ui/ nothing of either. server/ is a part of the program and also uses cli/ and
# src/base/; the public headers use libc and each other; tests and benchmarks may use all of src/ and server/. Each third-party library is included in one folder alone (see `places`), and in tests.
set -u
root=$1
cd "$root" || exit 99
failed=0
# The commands of diffusion autoencoders, and their folder; names of bundled weights may stand in any text.
own='^(src/pipeline/diffae/|cli/session/(diffusion|field)[.]|cli/commands/(edit|eval_diffusion|interpolate|sample)[.])'
if grep -rnE 'diffae_' src/pipeline src/train cli --include='*.[ch]' | grep -vE "$own"; then
    echo "a file that all families share names one of them; ask the descriptor (models/arch.h)"
    failed=1
fi

# includes: "FILE LINE SPELLING" for each #include, SPELLING with its quotes or brackets
includes() {
    find src cli server tests bench examples include -type f \( -name '*.[ch]' -o -name '*.cu' -o -name '*.inc' -o -name '*.def' \) 2>/dev/null |
        LC_ALL=C sort | xargs grep -nHE '^[[:space:]]*#[[:space:]]*include' /dev/null |
        sed -nE 's/^([^:]+):([0-9]+):[[:space:]]*#[[:space:]]*include[[:space:]]*(["<][^">]+[">]).*/\1 \2 \3/p'
}

# Where each quoted include leads: beside the file, in src/ (for the program in cli/), or, for tests, which share helpers, anywhere in tests/.
resolve() {
    while read -r file line spelling; do
        name=${spelling:1:${#spelling}-2}
        target=$spelling
        if [[ $spelling == \<zenith/* ]]; then
            target=include/$name
        elif [[ $spelling == \"* ]]; then
            if [[ -e $(dirname "$file")/$name ]]; then
                target=$(realpath -m --relative-to=. "$(dirname "$file")/$name")
            elif [[ ($file == cli/* || $file == server/*) && -e cli/$name ]]; then
                target=cli/$name
            elif [[ $name == server/* && -e $name ]]; then
                target=$name
            elif [[ -e src/$name ]]; then
                target=src/$name
            elif [[ $name == zenith/* && -e include/$name ]]; then
                target=include/$name
            elif [[ $file == tests/* && -n $(find tests -path "*/$name" -print -quit) ]]; then
                target=$(find tests -path "*/$name" -print -quit)
            else
                target=missing:$name
            fi
        fi
        echo "$file $line $target"
    done
}

includes | resolve | awk '
function layer(folder) { return folder in rank ? rank[folder] : -1 }
function fail(why) { printf "%s:%s: %s\n", $1, $2, why; bad = 1 }
BEGIN {
    n = split("base:0 kernels:1 tensor:2 io:3 text:3 diffusion:3 graph:3 ops:4 nn:5 models:6 train:7 pipeline:8", pairs, " ")
    for (i = 1; i <= n; i++) { split(pairs[i], p, ":"); rank[p[1]] = p[2] }
    places["^<(png|pngconf|jpeglib|jerror|turbojpeg|lcms2|lcms2_plugin|zlib|tiffio|gif_lib)\\.h>$|^<(webp|libheif)/"] = "src/io/image/"
    places["^<curl/"] = "src/io/net/"
    places["^<lmdb\\.h>$"] = "src/io/dataset/"
    places["^<lib(av|sw|postproc)[a-z]*/"] = "src/io/video/"
    places["^<mpi\\.h>$"] = "src/train/ranks/"
    places["^<(cu[a-z0-9_]+|mma|nvml|nvrtc|nccl|ptx_emulated)\\.h>$|^<cuda/"] = "src/kernels/cuda/"
    places["^<microhttpd\\.h>$"] = "server/http.c"
    places["^<cmocka\\.h>$"] = "tests/"
}
{
    count++
    split($1, from, "/"); split($3, to, "/")
    public_only = from[1] == "cli" || from[1] == "examples" || ($1 ~ /^tests\/cli\//)
    if ($3 ~ /^missing:/) { fail("cannot find \"" substr($3, 9) "\""); next }
    for (library in places)
        if ($3 ~ library && index($1, places[library]) != 1 && from[1] != "tests")
            fail("third-party header " $3 " outside " places[library])
    if ($3 ~ /^</) next
    if (from[1] == "include") {
        if (to[1] != "include") fail("a public header includes the private " $3)
    } else if (from[1] == "server") {
        if (to[1] != "include" && to[1] != "server" && to[1] != "cli" && $3 !~ /^src\/base\//)
            fail("a file of server/ includes " $3)
    } else if ($1 ~ /^cli\// && $3 == "server/serve.h") {
    } else if ($1 ~ /^cli\/(files|options|ui|session)\// && $3 ~ /^cli\/commands\//) {
        fail("includes a command, " $3)
    } else if ($1 ~ /^cli\/(files|options|ui)\// && $3 ~ /^cli\/session\//) {
        fail("includes what commands share, " $3)
    } else if (public_only) {
        if (to[1] != "include" && to[1] != from[1]) fail("includes the private " $3)
    } else if (from[1] == "tests" || from[1] == "bench") {
        if (to[1] != "include" && to[1] != "src" && to[1] != "server" && to[1] != from[1]) fail("a file of " from[1] "/ includes " $3)
    } else if (to[1] == "src") {
        a = layer(from[2]); b = layer(to[2])
        if (a < 0) fail("src/" from[2] " is not in the list of layers")
        else if (b < 0) fail("src/" to[2] " is not in the list of layers")
        else if (from[2] != to[2] && b >= a) fail("src/" from[2] " (layer " a ") includes " $3 " (layer " b ")")
        else if (from[2] == "kernels" && from[3] ~ /^(ref|simd)$/ && to[2] == "kernels" && to[3] ~ /^(arm|x86|cuda)$/)
            fail("src/kernels/" from[3] " includes " $3)
        else if ($3 ~ /^src\/models\/diffae\// && $1 ~ /^src\/(train|pipeline)\// && $1 !~ /^src\/pipeline\/diffae\//)
            fail("a room that all families share includes " $3 "; ask the descriptor (models/arch.h)")
    } else if (to[1] != "include") fail("src includes " $3)
}
END {
    if (count == 0) { print "no #include found: is this the root of the source?"; bad = 1 }
    exit bad
}' || failed=1
exit $failed
