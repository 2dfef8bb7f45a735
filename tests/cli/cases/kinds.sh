# Kinds of images that are only read: by content, whatever the name; refused by name where the library is missing.
# A BMP of 2x2 made by hand: red, green over blue, white.
printf 'BM\x46\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\x02\0\0\0\x02\0\0\0\x01\0\x18\0' >a.bmp
printf '\0\0\0\0\x10\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0' >>a.bmp
printf '\xff\0\0\xff\xff\xff\0\0\0\0\xff\0\xff\0\0\0' >>a.bmp
zenith info --json a.bmp | jsoncheck -p kind format width height bits
zenith encode -q --model random:taesd a.bmp -o a.safetensors && zenith info --json a.safetensors | jsoncheck -p image_width
zenith restore -q --model random:zenith-restore a.bmp -o a.png && zenith info --json a.png | jsoncheck -p width
mkdir photos && cp a.bmp photos/ && cp a.bmp photos/misnamed.gif
zenith restore -q --model random:zenith-restore photos -o out && ls out
# They cannot be written.
zenith restore -q --model random:zenith-restore a.bmp -o b.bmp
echo "status $?"
zenith decode -q --model random:taesd a.safetensors -o b.gif
echo "status $?"
head -c 60 a.bmp >cut.bmp
zenith info cut.bmp
echo "status $?"
