# Animated images: the first frame with a remark; encode --clip takes all frames.
cp $SOURCE/tests/fuzz/corpus/png/animated.png moving.png
wan=$SOURCE/tests/golden/wan/taew2_1.safetensors
zenith info --json moving.png | jsoncheck -p format frames
zenith encode --quiet --model random:taesd moving.png -o z.safetensors && echo "quiet"
zenith encode --model $wan moving.png -o z.safetensors | sed 's/  [0-9.]* ms//'
zenith restore --model random:zenith-restore moving.png -o r.png | sed 's/  [0-9.]* ms//'
zenith encode --model $wan --clip moving.png -o clip.safetensors | sed 's/  [0-9.]* ms//'
zenith encode --model $wan --clip moving.png moving.png -o twice.safetensors | sed 's/  [0-9.]* ms//'
head -c 350 moving.png >cut.png
zenith encode -q --model $wan --clip cut.png -o x.safetensors
echo "status $?"
