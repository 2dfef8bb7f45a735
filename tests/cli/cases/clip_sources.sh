# What clips are made of: photos that only lie together are not a video, and videos are not photos.
[[ $(zenith dataset info none.lmdb 2>&1) != *"no LMDB"* ]] || { cat "${0%.sh}.stdout"; cat "${0%.sh}.stderr" >&2; exit; }
mkdir -p photos some/video some/photos deep/in films bad
makeimage photos/a.png 64 48 && makeimage photos/b.png 64 48 && makeimage photos/c.png 40 56
zenith dataset build -q -f --clips 3 photos -o set.lmdb
echo "photos $?"
# what is a video in the same folder is taken
for n in 1 2 3; do makeimage some/video/$n.png 32 32 $n; done
cp photos/*.png some/photos
zenith dataset build -q -f --clips 3 some -o set.lmdb --json | jsoncheck -p videos skipped clips
echo "some of them $?"
zenith dataset build -q -f --clips 3 some/video nowhere -o set.lmdb
echo "nowhere $?"
# each name once
makeimage deep/in/1.png 32 32
zenith dataset build -q -f --clips 3 deep/in -o set.lmdb
echo "too few $?"
echo junk >bad/1.png
zenith dataset build -q -f --clips 3 bad -o set.lmdb
echo "unreadable $?"
# films without --clips
echo junk >films/a.mp4
for action in "info films" "info films/a.mp4" "build films -o other.lmdb"; do
    zenith dataset $action -q
    echo "$action $?"
done
