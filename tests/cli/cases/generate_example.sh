# The library's example generates the image that the program generates.
tinymodel model || exit 1
generate model "a red fox" example.png 7 48 2>progress || exit 1
zenith generate -q -m model "a red fox" --size 48 --seed 7 --strip -o program.png >/dev/null || exit 1
cmp example.png program.png
tr '\r' '\n' <progress | tail -n 1 | sed 's/ *$//'
[[ $(wc -l <"$SOURCE/examples/generate.c") -lt 60 ]] || echo "the example has grown too long"
generate model "a red fox" example.png 7 50
echo "status $?"
