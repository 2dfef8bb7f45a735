# Grey stays grey: restored, reconstructed, and through a latent, also of a clip. Coloured images keep their colours.
makeimage colour.png 40 24
makeimage grey.png 40 24 1 8 grey
makeimage deep.png 40 24 1 16 grey
makeimage grey.jpg 40 24 1 8 grey
grey() { zenith info --json "$1" | grep -c '"grey": true' || true; }
# colour type of a PNG: 0 grey, 2 RGB; components of a JPEG
type() { od -An -tu1 -j25 -N1 "$1" | tr -d ' '; }
components() { LC_ALL=C grep -obUaP '\xff\xc0' "$1" | head -1 | cut -d: -f1 | (read -r at; od -An -tu1 -j$((at + 9)) -N1 "$1" | tr -d ' '); }
for name in grey.png deep.png grey.jpg colour.png; do
    echo "$name"
    zenith restore -q --model random:zenith-restore $name -o restored.png && type restored.png
    zenith restore -q --model random:zenith-restore $name -o restored.jpg && components restored.jpg
    zenith reconstruct -q --model random:taesd $name -o again.png >/dev/null && type again.png
    for latent in z.safetensors z.png; do
        zenith encode -q --model random:taesd $name -o $latent && grey $latent
        zenith decode -q --model random:taesd $latent --bits 16 -o out.png && type out.png
    done
done
echo clip
wan=$SOURCE/tests/golden/wan/taew2_1.safetensors
zenith encode -q --model $wan --clip grey.png{,,,,,} -o clip.safetensors && grey clip.safetensors
zenith decode -q --model $wan clip.safetensors -o frame.png && type frame_0001.png && type frame_0003.png
zenith encode -q --model $wan --clip grey.png{,,,,} colour.png -o clip.safetensors
grey clip.safetensors
