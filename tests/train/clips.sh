#!/bin/sh
# A tiny video decoder for a teacher's latents, on real videos and real latents: clips.sh ZENITH SHARED
# Without the data it is skipped (77).
zenith=$1 shared=${ZENITH_SHARED:-$2}
. "$(dirname "$0")/../skip.sh"
films=$shared/data/video latents=$shared/data/weights/taehv_latents/test_latents_wan.safetensors
if [ ! -e "$films/bbb_a_480x270_24fps.mp4" ] || [ ! -e "$latents" ]; then
    echo "skipped: there are no films and latents under $shared/data"
    exit 77
fi
work=$(mktemp -d "${TMPDIR:-/tmp}/zenith-clips.XXXXXX") || exit 99
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 99
if ! "$zenith" dataset build --clips 9 --rate 8 "$films"/*.mp4 -o clips.lmdb --size 64 -q --json >built 2>problem; then
    grep -qE 'not supported in this build|no LMDB' problem && skip "$(cat problem)"
    cat problem
    exit 1
fi
fail() { echo "$1"; exit 1; }
# 144 frames at 24 a second, 48 at 8: five clips of nine
grep -q '"clips": 10' built || fail "not 10 clips: $(cat built)"
cat >teacher.yaml <<'Y'
model: wan21-vae
width: 4
frames: 9
size: 32
batch: 1
steps: 2
warmup: 1
held_out: 0
loss: {bands: 0, kl: 1e-4}
Y
"$zenith" train teacher.yaml --data clips.lmdb -o teacher -q >/dev/null || exit 1
cat >student.yaml <<'Y'
model: taew2_1
width: 8
batch: 1
size: 32
frames: 9
lr: 2e-3
warmup: 1
held_out: 30
eval_every: 5
distill: {encoder: 0, decoder: 40, joint: 0}
Y
"$zenith" distill --clips --teacher teacher/model.safetensors --student student.yaml --data clips.lmdb -o student -q --json >result ||
    exit 1
grep '"decoder_psnr": [0-9]' student/metrics.jsonl >measured
first=$(sed -n '1s/.*"decoder_psnr": \([0-9]*\).*/\1/p' measured) last=$(sed -n '$s/.*"decoder_psnr": \([0-9]*\).*/\1/p' measured)
echo "the student's decoder: $first dB, then $last dB from its teacher's"
[ "$last" -gt "$first" ] || fail "it did not learn: $(cat result)"
# Real latents of Wan 2.1, 16 frames of 64x40, to 61 frames; a value that is not finite would be an error.
"$zenith" decode "$latents" -m student/model.safetensors -o ours/ -q || exit 1
[ "$(ls ours | wc -l)" = 61 ] || fail "$(ls ours | wc -l) frames, not 61"
"$zenith" info ours/*_0061.png --json | grep -q '"width": 512' || fail "frames are not 512 wide"
