# Clips: data sets of them, a video autoencoder that learns from them with a Gaussian latent, its scores, a tiny student
# of it; runs that were killed end with the same bits; and what does not go.
[[ $(zenith dataset info none.lmdb 2>&1) != *"no LMDB"* ]] || { cat "${0%.sh}.stdout"; cat "${0%.sh}.stderr" >&2; exit; }
export ZENITH_MODELS=$SOURCE/weights
mkdir -p frames/a frames/b short
for n in {1..12}; do makeimage frames/a/f$n.png 64 48 $n && makeimage frames/b/f$n.png 64 48 2$n; done
makeimage short/1.png 64 48
zenith dataset build --clips 5 frames short -o clips.lmdb --size 40 --format png --json | jsoncheck -p videos skipped clips
zenith dataset build --clips 5 frames -o whole.lmdb --format png | grep -E '^(videos|clips)'
zenith dataset info clips.lmdb --json | jsoncheck -p clips least_frames most_width most_height
zenith dataset info clips.lmdb | grep -E '^(clips|frames|width|height)'
# Photos of one size are not frames, and a remark says so.
u32() { printf "\\x$(printf %02x $(($1 % 256)))\\x$(printf %02x $(($1 / 256)))\\0\\0"; }
mkdir photos
for n in 1 2; do
    {
        printf BM; u32 822; u32 0; u32 54; u32 40; u32 16; u32 16; printf '\1\0\30\0'; u32 0; u32 768; u32 0; u32 0; u32 0; u32 0
        awk "BEGIN { x = $n; for (i = 0; i < 768; i++) { x = (x * 1103 + 12345) % 65536; printf \"%c\", 33 + int(x / 1024) } }"
    } >photos/$n.bmp
done
zenith dataset build --clips 2 photos -o photos.lmdb >/dev/null
# A film gives as many, at half its rate half of them.
model=$SOURCE/tests/golden/wan/taew2_1.safetensors
zenith encode -q -m $model --clip frames/a -o a.safetensors
if zenith decode -q -m $model a.safetensors -o film.mkv --rate 10 2>film.txt; then
    zenith dataset build --clips 2 film.mkv -f -o film.lmdb -q | grep '^clips'
    zenith dataset build --clips 2 --rate 5 film.mkv -f -o film.lmdb -q | grep '^clips'
    # Films in folders, beside frames, and one that is none.
    mkdir -p films/more && mv film.mkv films/more && makeimage films/1.png 64 48 1 && makeimage films/2.png 64 48 2
    zenith dataset build --clips 2 films -f -o film.lmdb -q | grep -E '^(videos|clips)'
    echo nothing >films/bad.mp4 && rm films/?.png
    zenith dataset build --clips 2 films -f -o film.lmdb -q 2>film.txt | grep -E '^(videos|skipped|clips)'
    grep -o '^zenith: films/bad.mp4' film.txt
    mv films/more/film.mkv .
else
    grep -q 'not supported in this build' film.txt && sed -n 14,21p "${0%.sh}.stdout"
fi
# Training, and again with a kill after each checkpoint.
cat >vae.yaml <<'Y'
model: wan21-vae
width: 4
latent: 3
frames: 5
size: 32
batch: 2
accumulate: 2
steps: 4
warmup: 1
held_out: 40
eval_every: 4
checkpoint_every: 1
loss: {l1: 1, bands: 0, lpips: 0.1, kl: 0.01, kl_rise: 0.5}
Y
zenith train vae.yaml --data clips.lmdb -o vae -q --json | jsoncheck run steps loss psnr
grep -oE '"loss/[a-z0-9]*"' vae/metrics.jsonl
for step in 1 2 3; do
    [[ -e again/recipe.yaml ]] && set -- --resume || set -- vae.yaml
    zenith train "$@" --data clips.lmdb -o again -q -t $step >/dev/null 2>&1 &
    until [[ -e again/checkpoint.safetensors && $(grep -ao '"step":"[0-9]*"' again/checkpoint.safetensors) == '"step":"'[$step-9]* ]] || ! kill -0 $! 2>/dev/null; do sleep 0.05; done
    { kill -KILL $!; wait $!; } 2>/dev/null # together, or the shell may tell of the end between them
done
zenith train --resume --data clips.lmdb -o again -q >/dev/null
for file in checkpoint model; do cmp vae/$file.safetensors again/$file.safetensors; done
zenith info vae/model.safetensors | grep -E '^(architecture|latent channels|encoder|decoder)'
zenith eval --clips -m vae/model.safetensors --data clips.lmdb --lpips none --json | jsoncheck model data mean images failed
zenith eval --clips -m vae/model.safetensors --data clips.lmdb --lpips none -q -o scores.csv | grep -c flicker
head -1 scores.csv | grep -o 'flicker$'
# A student, which decodes the teacher's latents.
cat >student.yaml <<'Y'
model: taew2_1
width: 4
batch: 1
size: 32
frames: 5
warmup: 1
held_out: 40
distill: {encoder: 1, decoder: 2, joint: 1}
Y
zenith distill --clips --teacher vae/model.safetensors --student student.yaml --data clips.lmdb -o tiny -q --json |
    jsoncheck run steps latent_error decoder_psnr psnr teacher_psnr
zenith distill --resume --clips --student student.yaml --data clips.lmdb -o tiny -q | grep '^steps'
zenith encode -q -m vae/model.safetensors --clip frames/a -o a.safetensors
zenith decode -q -m tiny/model.safetensors a.safetensors -o out/ && ls out | wc -l
# The small Gaussian autoencoder for images, killed and resumed.
wan2d="--set width=4 --set size=32 --set batch=2 --set checkpoint_every=1 --set warmup=1 --set held_out=20"
zenith train wan2d --data frames -o one --steps 3 $wan2d -q >/dev/null
zenith train wan2d --data frames -o two --steps 3 $wan2d -q >/dev/null 2>&1 &
until [[ -e two/checkpoint.safetensors ]]; do sleep 0.05; done
{ kill -KILL $!; wait $!; } 2>/dev/null
zenith train --resume --data frames -o two -q >/dev/null
for file in checkpoint model; do cmp one/$file.safetensors two/$file.safetensors; done
grep -oE '"loss/[a-z0-9]*"' one/metrics.jsonl
zenith encode -q -m one/model.safetensors frames/a/f1.png -o f1.safetensors
zenith decode -q -m one/model.safetensors f1.safetensors -o f1.png
zenith reconstruct -q -m one/model.safetensors frames/a/f1.png -o back.png >/dev/null && cmp f1.png back.png
zenith eval -m one/model.safetensors --data frames/a --lpips none -q | grep -c '^mean of'
# In f16 the loss is scaled, and the run keeps its factor.
zenith train wan2d --data frames -o half --steps 2 $wan2d -p f16 -q >/dev/null
zenith train --resume --data frames -o half --steps 3 -q >/dev/null
grep -o '"loss_scale": [0-9.e+]*' half/metrics.jsonl
# What does not go.
zenith train vae.yaml --data frames -o bad
echo "no clips: $?"
zenith train vae.yaml --set frames=4 --data clips.lmdb -o bad
echo "no such length: $?"
zenith train taesd --set frames=5 --data clips.lmdb -o bad
echo "no video: $?"
zenith distill --clips --teacher random:taesd --student student.yaml --data clips.lmdb -o bad
echo "no video teacher: $?"
zenith train vae.yaml --set batch=3 --set accumulate=2 --data clips.lmdb -o bad
echo "no such parts: $?"
zenith train zenith-r --data clips.lmdb -o bad
echo "images from clips: $?"
zenith distill --teacher vae/model.safetensors --student student.yaml --set frames=0 --data clips.lmdb -o bad
echo "students from clips: $?"
zenith eval -q --clips -m vae/model.safetensors --data frames/a
echo "images: $?"
zenith eval -q -m vae/model.safetensors --data clips.lmdb
echo "clips: $?"
zenith eval -q --clips -m vae/model.safetensors --data clips.lmdb --memory 1M 2>&1 | grep -c 'too small for a clip' # once, not for each clip
zenith eval -q --clips -m random:zenith-restore --data clips.lmdb
echo "no autoencoder: $?"
zenith eval --clips -m one/model.safetensors --data clips.lmdb | grep -c '@5' # an image autoencoder: frame by frame
zenith eval --clips 5 --data film.mkv -m one/model.safetensors
echo "a number: $?"
zenith eval --clips --data film.mkv -m one/model.safetensors
echo "a video: $?"
zenith encode --clip frames/a -m $model -o bad.safetensors --tile 100 --blend
echo "such tiles: $?"
zenith dataset build --clips 5 --crops 2 frames -o bad.lmdb
echo "both: $?"
zenith dataset build --clips 50 frames -o bad.lmdb
echo "too long: $?"
zenith dataset build clips.lmdb -o bad.lmdb
echo "clips as photos: $?"
zenith dataset build --clips 2 clips.lmdb -o bad.lmdb
echo "clips as frames: $?"
zenith dataset build --clips 1 frames -o bad.lmdb
echo "one frame: $?"
mkdir -p tall && for n in {1..12}; do makeimage tall/$n.png 16 1400 $n; done
zenith dataset build --clips 12 tall -o bad.lmdb --size 16 --format webp
echo "too tall: $?"
zenith dataset build --clips 12 tall -o tall.lmdb --size 16 --format jpg -q | grep ^clips
zenith encode --clip frames/a -m $model -o bad.safetensors --tile 64
echo "tiles without blending: $?"
makeimage frames/b/f6.png 32 32
zenith encode --clip frames/b -m $model -o bad.safetensors
echo "another size: $?"
ls -d bad* 2>/dev/null
echo done
