# --quiet: nothing on either stream when all goes well, but errors are said.
makeimage a.png 40 24
zenith encode -q --model random:taesd a.png -o a.safetensors || exit 1
zenith decode --quiet --model random:taesd a.safetensors -o b.png || exit 1
zenith convert -q a.safetensors b.safetensors || exit 1
[[ -s b.png && -s b.safetensors ]] || echo "files are missing"
zenith encode -q --model random:taesd missing.png -o c.safetensors
