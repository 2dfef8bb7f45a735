# A result that cannot be written is refused before the work, before the model is even looked for.
[[ -d /proc/self ]] || { cat "${0%.sh}.stdout"; cat "${0%.sh}.stderr" >&2; exit; }
makeimage a.png 32 32
zenith encode -q -m random:taesd a.png -o a.safetensors
try() { zenith "$@"; echo "$1 $?"; }
try restore -m none a.png -o /proc/a.png
try restore -m none a.png -o /proc
try upscale -m none a.png -o /proc/new/
try upscale -m none a.png -o new/a.png
try reconstruct -m none a.png -o /proc/a.png
try decode -m none a.safetensors -o $(printf 'a%.0s' {1..300}).png
try encode -m none a.png -o /proc/a.npy
try encode -m none --clip a.png a.png -o /proc/a.npy
try sample -m none -o /proc/
try generate "a house" -m none -o /proc/
try generate "a house" -m none -o /proc/new/more/
# Beside the inputs, where -o is not given.
ln -s /proc/self/net locked
zenith encode -q -m random:taesd locked/a.png
ls
