# Data sets: built from folders, looked into, drawn, trained on. Bad files are told and counted, nothing is left after a
# failure, and the number of threads does not matter.
[[ $(zenith dataset info none.lmdb 2>&1) != *"no LMDB"* ]] || { cat "${0%.sh}.stdout"; cat "${0%.sh}.stderr" >&2; exit; }
mkdir photos photos/sub more more/photos
makeimage photos/a.png 300 200
makeimage photos/b.jpg 120 400 2
makeimage photos/small.webp 40 90 3
makeimage photos/sub/deep.png 100 100 4 16
makeimage more/photos/a.png 64 64 5
echo "not a picture" >photos/bad.png
echo "a note" >photos/notes.txt

zenith dataset build photos -o middle.lmdb --size 64 | grep -v seconds
echo "status ${PIPESTATUS[0]}"
rm photos/bad.png
ln -s . photos/sub/loop
zenith dataset info photos/sub --json | jsoncheck -p images
rm photos/sub/loop
zenith dataset build photos more/photos -o crops.lmdb --size 64 --crops 5 --format png --threads 1 --json |
    jsoncheck -p photos skipped images output
zenith dataset build photos more/photos -o again.lmdb --size 64 --crops 5 --format png --threads 3 -q >/dev/null
cmp crops.lmdb again.lmdb
# A set that exists is replaced by --force alone.
zenith dataset build photos more/photos -o again.lmdb --size 64 --crops 5 --format png --seed 1 -q
echo "exists $?"
cmp crops.lmdb again.lmdb
zenith dataset build photos more/photos -o again.lmdb --size 64 --crops 5 --format png --seed 1 -q --force >/dev/null
cmp -s crops.lmdb again.lmdb && echo "the seed does nothing"
zenith dataset build photos/sub -o jpeg.lmdb --size 64 --crops 50 --quality 30 -q >/dev/null
zenith dataset build photos/sub -o png.lmdb --size 64 --crops 50 --format png -q >/dev/null
[[ $(stat -c %s jpeg.lmdb) -lt $(stat -c %s png.lmdb) ]] || echo "JPEG is not smaller"

zenith dataset info middle.lmdb | grep -v bytes
zenith dataset info photos --heldout 50 --json |
    jsoncheck -p kind images unreadable least_width most_width least_height most_height held_out_percent
zenith dataset info crops.lmdb --json | jsoncheck file kind images bytes megapixels for_training held_out
zenith info crops.lmdb --json | jsoncheck -p file kind images
# A set from a set: its crops of crops are held out together with them.
zenith dataset build crops.lmdb -o small.lmdb --size 16 -q >/dev/null && zenith dataset info small.lmdb | grep ^width
head -c 30000 crops.lmdb >cut.lmdb
zenith dataset info cut.lmdb
echo "cut $?"
head -c 30000 /dev/zero >zero.lmdb
zenith dataset info zero.lmdb
echo "zero $?"
# Bytes that changed: where the tree begins, as both of the first pages tell it.
cp middle.lmdb broken.lmdb
for page in 0 1; do printf '\377' | dd of=broken.lmdb bs=1 seek=$((page * 4096 + 130)) conv=notrunc 2>/dev/null; done
for command in "dataset info broken.lmdb" "train zenith-r --data broken.lmdb -o run" "eval -m random:taesd --data broken.lmdb"; do
    zenith $command -q
    echo "broken $?"
done
rm broken.lmdb

zenith dataset show crops.lmdb -o sheet.png --count 6 --size 32
zenith dataset show photos -o sheet.jpg --json | jsoncheck output width height
zenith dataset show crops.lmdb -o huge.png --size 4096
echo "huge $?, $(ls huge.png 2>/dev/null | wc -l) files"
ZENITH_SHOW=blocks zenith dataset show crops.lmdb --show --count 4 --size 8 | grep -c '▀'

# A full disk and a polite kill leave nothing behind, not even where a set was before.
cp middle.lmdb kept.lmdb
(
    ulimit -f 100
    zenith dataset build photos -f -o middle.lmdb --size 64 --crops 50 --format png -q
    echo "full $?"
)
cmp middle.lmdb kept.lmdb
mkdir large
makeimage large/1.jpg 3000 2000
for n in 2 3 4 5 6 7 8; do ln large/1.jpg large/$n.jpg; done
zenith dataset build large -o large.lmdb --size 256 --crops 40 --format png --threads 1 -q 2>/dev/null &
sleep 0.5
kill -TERM $!
wait $!
echo "killed $?"
ls

cat >recipe.yaml <<'Y'
model: zenith-hier-r
batch: 2
size: 32
steps: 2
warmup: 1
Y
zenith train recipe.yaml --data crops.lmdb -o run -q --json | jsoncheck -p steps

zenith dataset; echo $?
zenith dataset pack photos; echo $?
zenith dataset build photos; echo $?
zenith dataset build photos -o set.txt; echo $?
zenith dataset build -o set.lmdb; echo $?
zenith dataset build crops.lmdb -o crops.lmdb; echo $?
zenith dataset build photos -o set.lmdb --format gif; echo $?
zenith dataset info; echo $?
zenith dataset show photos; echo $?
zenith dataset build photos -o set.lmdb --heldout 5; echo $?
zenith dataset info photos --crops 5; echo $?
zenith dataset show photos -o sheet.png --format png; echo $?
zenith dataset build nowhere -o set.lmdb; echo $?
mkdir none
zenith dataset build none -o set.lmdb; echo $?
echo junk >none/junk.png
zenith dataset build none -o set.lmdb -q; echo $?
ls | grep -c set.lmdb
exit 0
