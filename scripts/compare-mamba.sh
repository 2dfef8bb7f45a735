#!/usr/bin/env bash
# compare-mamba.sh DATA TEST OUT SECONDS [LABELS]: trains the Mamba models and what they are compared with, each for the
# same time, and measures them on images that none has seen. DATA and TEST: folders of images (TEST a few dozen). LABELS:
# attributes of the images of DATA, for the AUROC of conditions
#
# Environment: ZENITH (the program), DEVICE (auto), BATCH (the recipes'), PRECISION (f32), ONLY (some of the names below),
# SMALL=1: tiny networks at 32x32, for a CPU. CPU_TIME=1: SECONDS are those that a process computes, for a busy machine.
set -eu
data=$1 test=$2 out=$3 seconds=$4 labels=${5:-}
zenith=${ZENITH:-build/cli/zenith}
common=(--device "${DEVICE:-auto}" --quiet)
settings=(--set schedule=constant --set held_out=2 --set eval_every=1000000 --set checkpoint_every=1000000)
[ -n "${PRECISION:-}" ] && settings+=(--set "precision=$PRECISION")
[ -n "${BATCH:-}" ] && settings+=(--set "batch=$BATCH")
small_net=() small_field=()
if [ -n "${SMALL:-}" ]; then
    small_net=(--set size=32 --set latent=64 --set warmup=10 --set lr=1e-3)
    small_field=(--set size=32 --set latent=64 --set width=48 --set layers=2 --set warmup=20 --set lr=3e-3)
fi
mkdir -p "$out"

# Seconds that a process and its threads have computed so far.
cpu_seconds() {
    local fields
    read -ra fields <<<"$(sed 's/.*) //' "/proc/$1/stat" 2>/dev/null)"
    echo $(((${fields[11]:-0} + ${fields[12]:-0}) / $(getconf CLK_TCK)))
}

# run_for COMMAND...: SIGINT makes the program save its model and stop.
run_for() {
    if [ -z "${CPU_TIME:-}" ]; then
        timeout --foreground -s INT "$seconds" "$@"
        return
    fi
    "$@" &
    local pid=$!
    while kill -0 $pid 2>/dev/null && [ "$(cpu_seconds $pid)" -lt "$seconds" ]; do sleep 0.5; done
    kill -INT $pid 2>/dev/null || true
    wait $pid
}

# train NAME RECIPE SETTINGS...
train() {
    local name=$1 recipe=$2
    shift 2
    [ -n "${ONLY:-}" ] && [[ " $ONLY " != *" $name "* ]] && return 0
    rm -rf "${out:?}/$name"
    run_for "$zenith" train "$recipe" --data "$data" -o "$out/$name" --steps 10000000 "${common[@]}" "${settings[@]}" "$@" \
        >"$out/$name.log" 2>&1 || true
    [ -f "$out/$name/model.safetensors" ] || { cat "$out/$name.log"; return 1; }
    printf '%-14s steps %s\n' "$name" "$(tail -n 1 "$out/$name/metrics.jsonl" | sed 's/.*"step": *\([0-9]*\).*/\1/')"
}

# psnr NAME OPTIONS...: mean over the test images.
psnr() {
    local name=$1
    shift
    [ -f "$out/$name/model.safetensors" ] || return 0
    printf '%-14s %-28s %s\n' "$name" "$*" "$("$zenith" reconstruct "$test" -m "$out/$name" -o "$out/$name-images" --steps 20 \
        "$@" "${common[@]}" | tail -n 1)"
}

# auroc NAME: of a linear classifier on the conditions, held-out images.
auroc() {
    [ -n "$labels" ] && [ -f "$out/$1/model.safetensors" ] || return 0
    rm -rf "$out/$1-classes"
    "$zenith" train diffae-classifier --from "$out/$1" --data "$data" --labels "$labels" -o "$out/$1-classes" --steps 1500 \
        --set held_out=20 --set eval_every=1500 "${common[@]}" >"$out/$1-classes.log" 2>&1 || cat "$out/$1-classes.log"
    printf '%-14s %s\n' "$1" "$(grep -E '^auroc' "$out/$1-classes.log")"
}

train conv diffae-small "${small_net[@]}"
train mamba diffae-mamba-small "${small_net[@]}"
train field mamba-field "${small_field[@]}"
train direct mamba-field-direct "${small_field[@]}"
train coordinates mamba-coordinates "${small_field[@]}"
train masked diffae-masked-small "${small_net[@]}"

echo '--- reconstruction, noise drawn at random: what conditions hold'
for name in conv mamba field direct coordinates masked; do psnr "$name" --random-noise; done
[ -n "${SMALL:-}" ] || echo '--- reconstruction, noise from the image'
[ -n "${SMALL:-}" ] || for name in conv mamba field; do psnr "$name" --encode-steps 50; done
echo '--- from a share of the pixels'
for name in field direct coordinates masked; do
    for share in 5% 10% 25% 100%; do psnr "$name" --keep $share; done
done
echo '--- twice as many pixels a side, from all'
for name in field direct coordinates; do psnr "$name" --scale 2; done
echo '--- attributes'
for name in conv mamba direct; do auroc "$name"; done
