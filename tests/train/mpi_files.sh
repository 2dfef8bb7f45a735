#!/bin/sh
# Commands over many files on MPI ranks: the same files as by one process, each made once, and one report by rank 0.
#
#     mpi_files.sh ZENITH TINYMODEL
set -eu
zenith=$1
. "$(dirname "$0")/../skip.sh"
command -v mpirun >/dev/null || skip "there is no mpirun on this machine"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_mpi_yield_when_idle=1
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0"
root=$(cd "$(dirname "$0")/../.." && pwd)
export ZENITH_MODELS="$root/weights"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
export XDG_CACHE_HOME="$folder/cache" # of prompts
fail() {
    echo "FAILED: $*"
    exit 1
}
on() { n=$1 && shift && timeout 900 mpirun -np "$n" "$zenith" "$@"; }
plain() { sed 's/-[13]\//\//g; s/  [0-9.]* ms//; s/  [0-9.]* + [0-9.]* ms//; s/_ms": [0-9.e+-]*/_ms": T/g'; }

mkdir photos
for i in 1 2 3 4 5; do cp "$root/tests/broken/images/good.jpg" photos/$i.jpg; done
if ! on 2 restore photos/1.jpg -o probe.png >log 2>&1; then
    grep -q 'has no MPI' log && skip "this build has no MPI"
    cat log && fail "restore on 2 ranks"
fi

echo "results and report are those of one process"
for command in restore reconstruct encode; do
    "$zenith" $command photos -o "$command-1/" | plain >one.txt
    on 3 $command photos -o "$command-3/" 2>&1 | plain >three.txt
    diff one.txt three.txt || fail "another report of $command"
    diff -r "$command-1" "$command-3" || fail "other results of $command"
done
"$zenith" decode encode-1 -o decode-1/ | plain >one.txt
on 2 decode encode-1 -o decode-3/ 2>&1 | plain | diff one.txt - || fail "another report of decode"

echo "a file that fails is told once, beside the others, also in JSON"
echo junk >photos/6.jpg
"$zenith" restore photos -o one/ --json 2>one.err | plain | sed 's/one\//X\//g' >one.json
on 3 restore photos -o three/ --json 2>three.err | plain | sed 's/three\//X\//g' >three.json
diff one.json three.json || fail "another JSON object"
[ "$(grep -c '^zenith: photos/6.jpg' three.err)" = 1 ] || { cat three.err && fail "the failure is not told once"; }
grep -q 'photos/6.jpg' three.json || fail "the JSON object says nothing of the failure"

echo "errors before the first file, more ranks than files, and one file"
on 3 restore -m nosuch photos -o none/ >log 2>&1 && fail "a model that is not there"
[ "$(grep -c '^zenith: .*nosuch' log)" = 1 ] || { cat log && fail "the model is not told once"; }
on 4 restore photos/1.jpg photos/2.jpg -o few/ 2>&1 | grep -c ' -> ' >log
[ "$(cat log)" = 2 ] || fail "more ranks than files"
[ "$(on 2 reconstruct photos/1.jpg 2>&1 | grep -c '^psnr')" = 1 ] || fail "one picture is reported twice"

echo "images of prompts are divided, each made once; without a common seed that is refused"
"$2" model
printf 'a fox\na dog\n' >prompts.txt
generate() { echo generate --prompts prompts.txt --count 2 -m model --size 32 --steps 1 --seed 7; }
seconds() { sed 's/ (cached)//; s/, [0-9.]* s$//; s/made-[13]/made/g; s/_ms": [0-9.e+-]*/_ms": T/g; s/"cached": [a-z]*/"cached": C/g; s/"peak_bytes": [0-9]*/"peak_bytes": B/g'; }
"$zenith" $(generate) -o made-1/ | seconds >one.txt
on 3 $(generate) -o made-3/ 2>&1 | seconds | diff one.txt - || fail "another report of generate"
diff -r made-1 made-3 || fail "other images"
"$zenith" $(generate) -o made-1/ --json | seconds >one.json
on 3 $(generate) -o made-3/ --json | seconds | diff one.json - || fail "another JSON object of generate"
on 2 generate "a fox" -m model -o x.png >log 2>&1 && fail "no common seed"
[ "$(grep -c 'needs --seed under mpirun' log)" = 1 ] || { cat log && fail "the missing seed is not told once"; }
