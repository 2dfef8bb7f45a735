# What a file is, for everything the program reads.
makeimage a.png 40 24
zenith encode -q --model random:taesd a.png -o z.safetensors || exit 1
zenith info a.png
zenith info z.safetensors
zenith info -q random:taesd --size 64x32
zenith convert -q z.safetensors plain.safetensors
echo hello >text
zenith info text
echo "text $?"
zenith info missing.png
echo "missing $?"
mkdir folder
zenith info folder
echo "folder $?"
