# A reader that goes away: no crash, no message, a non-zero exit status.
makeimage a.png 24 16
for line in "help" "help encode" "compare a.png a.png" "info a.png --json" "info a.png --show" "--version"; do
    { sleep 0.2; zenith $line; echo "$line: $?" >>statuses; } | true
done
cat statuses
# "-" is standard input and output, however often a command looks at its input; what is there already stays.
model="--model random:taesd -q"
zenith encode $model a.png -o a.safetensors && zenith decode $model a.safetensors -o back.png
cat a.png | zenith encode $model - -o - | cmp - a.safetensors
cat a.safetensors | zenith decode $model - -o - | cmp - back.png
zenith decode $model a.safetensors -o back.jpg
zenith decode $model - -o - --format jpg <a.safetensors | cmp - back.jpg
zenith restore --model random:zenith-restore -q a.png -o clean.png
printf before >all
cat a.png | zenith restore --model random:zenith-restore -q - -o - >>all
cat <(printf before) clean.png | cmp - all
cat a.png | zenith info - | grep -E 'kind|width'
cat a.png | zenith compare - a.png | head -1
cat a.safetensors | zenith convert - copy.safetensors -q && zenith info copy.safetensors | grep kind
try() {
    zenith "$@" >out
    echo "$* $? $(stat -c %s out)"
}
try encode - <a.png
try encode a.png a.png -o -
try encode a.png -o - --format gif
try decode a.safetensors -o - --json
try decode a.safetensors -o - --format gif
echo junk | try encode $model - -o -
# Every format of latents goes to standard output, and to a pipe whose name does not tell the format.
for format in npy latent png; do
    zenith encode $model a.png -o expected.$format
    zenith encode $model a.png -o - --format $format | cmp - expected.$format && echo "$format to standard output"
done
mkfifo result
cat result >got & zenith encode $model a.png -o result --format npy; wait; cmp got expected.npy && echo "npy to a pipe"
cat result >got & zenith decode $model a.safetensors -o result --format jpg; wait; cmp got back.jpg && echo "jpg to a pipe"
try decode a.safetensors -o result
zenith encode $model a.png -o - --format npy >/dev/full
# It is called by that name, and its result in a folder by a short one.
echo junk | try restore --model random:zenith-restore -q - -o -
echo junk | try convert - copy.safetensors
echo junk | try info -
cat a.png | zenith info - --json | jsoncheck -p file
# A pipe of the shell's is looked at twice too.
zenith info <(cat a.png) --json | jsoncheck -p width
zenith restore --model random:zenith-restore -q <(cat a.png) -o restored.png && ls restored.png
# So is a pipe with a name, which is called by it.
mkfifo named.fifo other.fifo
give() { cat "$1" >"$2" & }
give a.png named.fifo && zenith info named.fifo --json | jsoncheck -p file width
give a.png named.fifo && zenith encode $model named.fifo && cmp named.safetensors a.safetensors
give a.png named.fifo && give back.png other.fifo && zenith compare named.fifo other.fifo | head -1 | cut -c 1-4
give /dev/null named.fifo && try info named.fifo
give a.safetensors named.fifo && zenith convert named.fifo other.safetensors -q && cmp other.safetensors copy.safetensors
mkdir folder
zenith encode --model random:taesd - -o folder <a.png 2>/dev/null | sed 's/  [0-9].*//'
zenith decode $model a.safetensors -o - >/dev/full
echo "full $?"
# Also of a result that is smaller than the buffer of standard output, before which a remark comes.
makeimage tiny.png 8 8 && zenith encode -q $model tiny.png -o tiny.safetensors
zenith decode $model tiny.safetensors -o - >/dev/full 2>/dev/null
echo "full $?"
