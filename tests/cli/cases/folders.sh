# Folders and several files: sorted, names kept, a bad file does not stop the others.
mkdir photos photos/sub
for name in b c a; do makeimage photos/$name.png 24 16 7; done
makeimage photos/d.jpg 24 16
makeimage photos/sub/e.png 24 16
echo "not a picture" >photos/bad.png
head -c 60 photos/a.png >photos/short.png
echo "a note" >photos/notes.txt
zenith encode photos -o latents --model random:taesd | sed 's/  .*//'
echo "encode ${PIPESTATUS[0]}"
ls latents
head -c 100 latents/a.safetensors >latents/bad.safetensors
zenith decode -q latents -o pictures --format webp --model random:taesd
echo "decode $?"
ls pictures
zenith decode -q latents/bad.safetensors -o failed/ --model random:taesd
echo "decode $?, $(ls -d failed 2>/dev/null | wc -l) folders left"
# Beside the input; several names at once; one of them missing.
mkdir beside
cp photos/[abc].png beside
zenith encode -q beside/a.png beside/none.png beside/b.png --model random:taesd
echo "beside $?"
ls beside
mkdir empty
zenith encode -q empty --model random:taesd
echo "empty $?"
zenith encode -q empty --model random:taesd -o fromempty 2>/dev/null
echo "empty $?, $(ls -d fromempty 2>/dev/null | wc -l) folders created"
zenith encode -q photos/a.png photos/b.png -o photos/c.png --model random:taesd
echo "file for a folder $?"
zenith encode -q photos/a.png photos/b.png -o both.safetensors --model random:taesd
echo "a file's name for a folder $?"
zenith encode -q photos/a.png -o no/such/folder/ --model random:taesd
echo "no way to the folder $?"
ls -d both.safetensors no 2>/dev/null
# Two results of one name, and a result that is an input.
mkdir here
cp photos/a.png here/x.png
cp photos/d.jpg here/x.jpg
zenith encode -q here -o there --model random:taesd
echo "two of one name $?"
zenith decode -q there/x.safetensors -o here --model random:taesd && cp photos/a.png here/x.png
zenith restore -q photos/a.png here/x.png -o here --model random:zenith-restore
echo "over an input $?"
ls here there
# A pipe in a folder is no picture, and nobody waits for what comes out of it.
mkdir pipes
cp photos/a.png pipes
mkfifo pipes/b.png
timeout 600 zenith encode -q pipes -o frompipes --model random:taesd
echo "a pipe among them $?"
ls frompipes
timeout 600 zenith dataset info pipes | grep images
