# A full disk: one sentence and exit status 1, on stdout as in files.
[[ -e /dev/full ]] || { cat "${0%.sh}.stdout"; cat "${0%.sh}.stderr.glob" >&2; exit; }
makeimage a.png 24 16
zenith encode -q --model random:taesd a.png -o z.safetensors || exit 1
ln -s /dev/full full.png
ln -s /dev/full full.safetensors
for line in "models" "models --json" "info --json z.safetensors" "compare a.png a.png" "--version"; do
    zenith $line -q 2>&1 >/dev/full | grep -v "no model"
    echo "$line: ${PIPESTATUS[0]}"
done
zenith decode -q --model random:taesd z.safetensors -o full.png
echo "decode $?"
zenith encode -q --model random:taesd a.png -o full.safetensors
echo "encode $?"
zenith convert -q z.safetensors full.safetensors
echo "convert $?"
# No line of success for what the shell did not get.
for command in "decode -m random:taesd z.safetensors" "restore -m random:zenith-restore a.png"; do
    zenith $command -o - >/dev/full
    echo "${command%% *} $?"
done
