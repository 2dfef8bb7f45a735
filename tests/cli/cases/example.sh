# The first example of the library does what the program does.
makeimage a.png 40 24
01_roundtrip random:taesd a.png example.png || exit 1
zenith reconstruct -q --model random:taesd --seed 1 a.png -o program.png >/dev/null || exit 1
cmp example.png program.png
[[ $(wc -l <"$SOURCE/examples/01_roundtrip.c") -lt 40 ]] || echo "the example has grown too long"
01_roundtrip random:taesd missing.png out.png
echo "status $?"
