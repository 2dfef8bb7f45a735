# Mistakes in `zenith generate` are one sentence, and nothing is written.
tinymodel model || exit 1
makeimage photo.png 48 32
makeimage mask.png 16 16
printf '# nothing\n\n' >empty.txt
try() {
    zenith generate "$@"
    echo "status $?"
}
gen() { try -m model --size 48x32 --steps 1 --seed 7 "$@"; }
try
try a red fox -o x.png
try "a fox" -m model
try "a fox" -m model -o x.txt
try "a fox" -m model -o none/x.png
try "a fox" -m none -o x.png
try "a fox" -o x.png
try "a fox" -m model -o x.png --size 1000x512
try "a fox" -m model -o x.png --size 120
try "a fox" -m model -o x.png --size 100x70
try "a fox" -m model -o x.png --size 5
try "a fox" -m model -o x.png --size 0
try "a fox" -m model -o x.png --steps 0
try "a fox" -m model -o x.png --steps 1001
try "a fox" -m model -o x.png --seed -1
try "a fox" -m model -o x.png --seed fox
try "a fox" -m model -o x.png --strength 0.5
try "a fox" -m model -o x.png --image photo.png --strength 1.5
try "a fox" -m model -o x.png --guidance -1
try "a fox" -m model -o x.png --guidance nan
try "a fox" -m model -o x.png --shift 0
try "a fox" -m model -o x.png --calibrate
try "a fox" -m model -o x.png --mask mask.png
try "a fox" -m model -o x.png --image photo.png --mask mask.png
try "a fox" -m model -o x.png --image none.png
gen "a fox" -o x.png --lora none.safetensors:0.5
gen "a fox" -o x.png --lora :0.5
gen "a fox" -o x.png --lora photo.png:abc
gen "a fox" --prompts empty.txt -o x.png
gen --prompts empty.txt -o x.png
gen --prompts - -o x.png <empty.txt
gen --prompts none.txt -o x.png
gen --from photo.png -o x.png
gen --from none.png -o x.png
gen --from empty.txt -o x.png
gen "a fox" -o - --count 2
gen "a fox" -o - --json
gen "a fox" -o - --preview
gen "a fox" -o x.png --preview=step.txt
gen "a fox" -o x.png --preview=x.png
gen "a fox" --image photo.png -o photo.png
gen "a fox" -o x.png --format gif
gen "a fox" -o x.png --tile 100
gen "a fox" -o photo.png/deep/
gen "-5 degrees" -o x.png
gen "--bare trees" -o x.png
gen "a fox" --image -o x.png
gen "a fox" -m model -o x.png --image - --mask mask.png <photo.png
gen "a fox" -o x.png --image - --mask - <photo.png
gen - -o x.png --image - <photo.png
gen "a fox" -o x.png --guidance 1 --negative $'caf\xe9'
printf 'a fox\ncaf\xe9\n' >latin1.txt
gen --prompts latin1.txt -o x.png
gen --prompts - -o x.png <latin1.txt
# The image is not whole on a full device: no line says that it was made.
zenith generate -m model --size 48x32 --steps 1 --seed 7 "a fox" -o - >/dev/full
echo "status $?"
! compgen -G 'x.*'
# Allowed, but reported.
gen "" -o empty.png -q
gen "" -o empty.png 2>&1 >/dev/null | grep -v status
gen "a fox" --negative dog -o n.png 2>&1 >/dev/null | grep -v status
gen "a fox" --negative dog --guidance 1 -o n.png 2>&1 >/dev/null | grep -v status
gen "a fox" --negative dog --guidance 0 -o n.png 2>&1 >/dev/null | grep -v status
