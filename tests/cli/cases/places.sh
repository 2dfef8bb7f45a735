# A folder that does not exist is reported before any work: here the models do not exist either, so a command that began
# would complain about them, or about the input.
makeimage a.png 32 32
echo file >file
mkdir frames photos
cp a.png frames/1.png
cp a.png photos/1.png
gone=missing/dir
for command in "restore a.png" "upscale a.png" "reconstruct a.png" "edit a.png --attribute Smiling" "interpolate a.png a.png" \
    sample "generate fox"; do
    zenith $command -q -m none -o $gone/out.png
    echo "${command%% *} $?"
done
for command in "restore a.png" "upscale a.png" "reconstruct a.png" "edit a.png --attribute Smiling" sample; do
    zenith $command -q -m none -o $gone/out/
    echo "${command%% *} to a folder $?"
done
zenith encode -q a.png -m none -o $gone/a.safetensors
echo "encode $?"
zenith encode -q --clip frames -m none -o $gone/a.safetensors
echo "encode --clip $?"
zenith encode -q --batch frames -m none -o $gone/a.npy
echo "encode --batch $?"
zenith decode -q none.safetensors -m none -o $gone/a.png
echo "decode $?"
zenith sample -q --points 3 -m none -o $gone/points.csv
echo "sample --points $?"
zenith generate -q fox -m none -o a.png --preview=$gone/step.png
echo "generate --preview $?"
zenith convert -q none.pth $gone/a.safetensors
echo "convert $?"
zenith dataset build -q nowhere -o $gone/a.lmdb
echo "dataset build $?"
zenith dataset show -q nowhere -o $gone/sheet.png
echo "dataset show $?"
zenith eval -q -m none --data nowhere -o $gone/scores.csv
echo "eval $?"
zenith train -q zenith-r --data nowhere -o file/run
echo "train $?"
zenith distill -q --teacher none --student zenith-r --data nowhere -o file/above/run
echo "distill $?"
# a name that ends in a slash is a folder, and a file is none
zenith sample -q -m none -o file/
echo "file/ $?"
ls
