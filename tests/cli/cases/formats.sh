# Every kind of picture and latent goes in and out, by content and by extension.
for name in a.png a.jpg a.jpeg a.webp; do
    makeimage $name 40 24
    zenith encode -q --model random:taesd $name -o z.safetensors || exit 1
done
makeimage deep.png 40 24 1 16
zenith info --json deep.png | jsoncheck -p bits
zenith encode -q --model random:taesd deep.png -o z.png || exit 1
zenith info --json z.png | jsoncheck -p kind width height channels image_width image_height
for name in out.png out.jpg out.webp; do
    zenith decode -q --model random:taesd z.png -o $name || exit 1
    zenith info --json $name | jsoncheck -p kind width
done
zenith decode -q --model random:taesd z.png --bits 16 -o deep2.png && zenith info --json deep2.png | jsoncheck -p bits
zenith decode -q --model random:taesd z.png --bits 16 -o deep.jpg || echo "no 16 bits in JPEG"
zenith decode -q --model random:taesd z.png --lossless -o exact.webp && zenith compare --json out.png exact.webp | jsoncheck -p max_difference
zenith decode -q --model random:taesd z.png --quality 5 -o small.jpg
[[ $(stat -c %s small.jpg) -lt $(stat -c %s out.jpg) ]] || echo "quality changes nothing"
cp a.png misnamed.jpg
zenith info --json misnamed.jpg | jsoncheck -p kind
