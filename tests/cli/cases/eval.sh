# Scores of models on folders and data sets: tables, files, JSON; bad pictures are told and do not stop the others.
mkdir photos photos/sub
makeimage photos/a.png 200 180
makeimage photos/b.jpg 40 24 2
makeimage photos/sub/c.png 24 40 3
check() { "${@:2}" | jsoncheck $1 || echo "failed: ${*:2}"; }
model="--model random:taesd"
zenith eval -q $model --data photos | sed -E 's/ +[0-9.]+$/ MS/; s/-?[0-9]+\.[0-9]+/N/g'
zenith eval $model --data photos 2>/dev/null | cut -d' ' -f1
check "model data mean images failed seconds" zenith eval --json -q $model --data photos
# The same figures as reconstruct, and for any number of threads.
for name in a.png b.jpg sub/c.png; do
    zenith reconstruct --json -q $model photos/$name | jsoncheck -p psnr ssim | paste -sd ' '
done >one
for threads in 1 3; do
    zenith eval -q $model --data photos --threads $threads -o scores.csv >/dev/null || echo "eval failed"
    tail -n +2 scores.csv | grep -v ^mean | cut -d, -f5,6 | tr , ' ' >many
    # JSON has a digit less, so that numbers rounded twice may differ in their last one.
    paste -d ' ' one many | awk '{ for (i = 1; i <= 2; i++) if (($i - $(i + 2)) ^ 2 > 1e-14 * $i ^ 2) print "differ", $0 }'
done
head -1 scores.csv
cut -d, -f1-8 scores.csv | sed -E 's/,[0-9.]+,([0-9.]+),([0-9.]+),([0-9.]*),0$/,MS,PSNR,SSIM,\3,0/; s/,0\.[0-9]+,0$/,MS-SSIM,0/' | tail -4
awk -F, '/^"/ { sum += $5 } /^mean/ && (sum / 3 - $5) ^ 2 > 1e-12 { print "the mean is not that of the rows" }' scores.csv
# LPIPS by the weights that come with the program, of images of at least 64x64.
ZENITH_MODELS="$SOURCE/weights" zenith eval -q $model --data photos --threads 1 -o lpips.csv | sed -E 's/ +[0-9.]+$/ MS/; s/-?[0-9]+\.[0-9]+/N/g'
cut -d, -f1,9,10 lpips.csv | sed -E 's/,0\.[0-9]+$/,LPIPS/'
zenith eval -q $model --data photos --lpips squeeze
zenith eval -q $model --data photos -o scores.json >/dev/null && jsoncheck model data mean images failed <scores.json

# A set, and only what training leaves alone.
if zenith dataset build photos -o set.lmdb --size 24 --format png -q >/dev/null 2>&1; then # else there is no LMDB
    check "mean images" zenith eval -q $model --data set.lmdb --json
fi
zenith eval -q $model --data photos --heldout 60 -o held.csv >/dev/null; wc -l <held.csv

# Restoring: damage by the seed, plain filters beside the network.
restorer="--model random:zenith-restore"
zenith eval -q $restorer --data photos/sub --task deblur | sed -E 's/ +[0-9.]+$/ MS/; s/-?[0-9]+\.[0-9]+/N/g'
zenith eval -q $restorer --data photos/sub --damage gaussian:25 -o 1.csv --nlm >/dev/null
zenith eval -q $restorer --data photos/sub --damage gaussian:25 -o 2.csv --nlm --threads 1 >/dev/null
zenith eval -q $restorer --data photos/sub --damage gaussian:25 -o 3.csv --nlm --seed 5 >/dev/null
head -1 1.csv
scores() { cut -d, -f5- $1; }
cmp <(scores 1.csv) <(scores 2.csv)
cmp -s <(scores 1.csv) <(scores 3.csv) && echo "the seed does nothing"
# Pictures that no damage changes: their PSNR is infinite, and counted.
zenith eval -q $restorer --data photos/sub --damage gaussian:0 | sed -E 's/ +[0-9]+\.[0-9]+$/ MS/; s/-?[0-9]+\.[0-9]+/N/g'
zenith eval -q $restorer --data photos/sub --damage gaussian:0 --json | grep -o '"damaged": *{[^}]*}'

# Gates.
zenith eval -q --model random:zenith-hier --data photos --gates | sed -E 's/ +[0-9.]+ +[0-9.]+%/ MS SHARE/; s/ms .*/ms MS/'
zenith eval -q --model random:zenith-hier --data photos --gates --json | jsoncheck model images encode_ms layers failed
zenith eval -q $model --data photos --gates
echo "no gates $?"

# Pictures that cannot be judged.
echo junk >photos/bad.png
zenith eval -q $model --data photos -o some.csv >/dev/null
echo "bad picture $?"
wc -l <some.csv
zenith eval -q --json $model --data photos 2>/dev/null | jsoncheck -p failed
mkdir none; echo junk >none/junk.png
zenith eval -q $model --data none; echo $?
zenith eval -q $model --data nowhere; echo $?
zenith eval -q $model --data photos --task denoise; echo $?
zenith eval -q --model nothing --data photos; echo $?
ln -s /dev/full full.csv
zenith eval -q $model --data photos/sub -o full.csv | cut -d' ' -f1; echo ${PIPESTATUS[0]}
zenith eval -q $model --data photos/sub -o no/such.csv; echo $?
zenith eval $model; echo $?
zenith eval $model --data photos -o x.txt; echo $?
zenith eval $model --data photos --gates -o x.csv; echo $?
zenith eval $model --data photos --damage fog:3; echo $?
zenith eval $model --data photos --damage none; echo $?
zenith eval $model --data photos --task sharpen; echo $?

# Ctrl-C.
mkdir large
for n in 1 2 3 4 5 6; do makeimage large/$n.jpg 900 600 $n; done
onterminal -i 'left  eval' zenith eval $model --data large --threads 1 -o large.csv >seen
echo "status $?"
ls large.csv 2>&1
exit 0
