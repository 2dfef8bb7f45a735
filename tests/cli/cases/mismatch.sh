# A latent of another model: a sentence that names both, and nothing written.
makeimage a.png 24 16
zenith encode -q --model random:taesd3 a.png -o z.safetensors || exit 1
zenith decode -q --model random:taesd z.safetensors -o out.png
echo "decode $?"
[[ ! -e out.png ]] || echo "out.png was written"
zenith encode -q --model random:taesd a.png -o four.safetensors || exit 1
zenith decode -q --model random:taew2_1 four.safetensors -o out.png
echo "video $?"
zenith encode -q --model random:taesd3 a.png -o z.png
echo "png $?"
