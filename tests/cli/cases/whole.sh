# A result appears whole or not at all: after a failure the old file is untouched and nothing else is left behind.
makeimage a.png 24 16
zenith encode -q --model random:taesd a.png -o good.safetensors || exit 1
head -c 150 good.safetensors >bad.safetensors
echo old >out.png
echo old >out.safetensors
zenith decode -q --model random:taesd bad.safetensors -o out.png
echo "decode $?"
echo junk >junk.png
zenith encode -q --model random:taesd junk.png -o out.safetensors
echo "encode $?"
zenith convert -q bad.safetensors out.safetensors
echo "convert $?"
cat out.png out.safetensors
mkdir locked
if [[ $(id -u) != 0 ]]; then
    chmod a-w locked
    zenith decode -q --model random:taesd good.safetensors -o locked/x.png
else
    zenith decode -q --model random:taesd good.safetensors -o nowhere/x.png
fi
echo "no place $?"
ls -A . locked
