# Where 16 bits are not faster, f32 computes: a remark says so once, and JSON tells what was used and what was asked for.
export ZENITH_CPU_MASK=fp16,bf16,i8mm,avx512bf16,amx
makeimage a.png 70 45
makeimage b.png 33 20
zenith restore -m random:zenith-restore -p bf16 a.png b.png -o out/ >/dev/null
zenith restore -m random:zenith-restore -p bf16 -q a.png -o r.png
zenith restore -m random:zenith-restore -p f32 a.png -o r.png >/dev/null
zenith restore -m random:zenith-restore -p f16 a.png -o r.png >/dev/null
zenith restore -m random:zenith-restore -p bf16 a.png -o r.png --json -q | jsoncheck -p precision precision_asked precision_share
zenith restore -m random:zenith-restore a.png -o r.png --json -q | grep -c precision
zenith reconstruct -m random:taesd -p bf16 a.png --json -q | jsoncheck -p precision precision_asked
zenith encode -m random:taesd -p f16 a.png -o a.safetensors --json -q | jsoncheck -p precision precision_asked
zenith decode -m random:taesd -p bf16 a.safetensors -o d.png >/dev/null
# So it is for clips, of video autoencoders and of others.
for model in random:taew2_1 random:taesd; do
    zenith encode --clip -m $model -p bf16 a.png a.png -o clip.safetensors --json -q | jsoncheck -p precision precision_asked
    zenith decode -m $model -p f16 clip.safetensors -o frames/ >/dev/null
done
# What Wan's layers retain has 16 bits all the same.
makeimage small.png 16 16
zenith encode --clip -m random:wan21-vae -p bf16 small.png small.png -o wan.safetensors >/dev/null
zenith interpolate -m random:diffae-compact -p bf16 a.png b.png --frames 2 --random-noise --steps 2 -o i.png --json -q | jsoncheck -p precision_asked
