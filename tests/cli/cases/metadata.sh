# EXIF and XMP stay with a restored or reconstructed photo, the orientation set to upright; --strip drops them.
makeimage plain.jpg 40 24
exif='Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0'
xmp='http://ns.adobe.com/xap/1.0/\0<x tiff:Orientation="6" dc:rights="mine"/>'
{ head -c 2 plain.jpg; printf "\xff\xe1\x00\x22$exif"; printf "\xff\xe1\x00\x49$xmp"; tail -c +3 plain.jpg; } >photo.jpg
zenith info --json photo.jpg | jsoncheck -p width height
# the last bytes of the only entry of the EXIF directory: its value
orientation() { LC_ALL=C grep -oUaP '\x12\x01\x03\0\x01\0\0\0\K.' "$1" | head -c 1 | od -An -tu1 | tr -d ' '; }
look() { echo "$1: orientation $(orientation "$1") $(grep -ao '<x tiff.*/>' "$1")"; }
restore="zenith restore -q --model random:zenith-restore"
look photo.jpg
for name in out.jpg out.png out.webp; do
    $restore photo.jpg -o $name && look $name
    zenith info --json $name | jsoncheck -p width height
done
$restore photo.jpg -o lossless.webp --lossless && look lossless.webp && zenith info --json lossless.webp | jsoncheck -p width
$restore photo.jpg -o stripped.jpg --strip && look stripped.jpg
$restore photo.jpg -o sheet.jpg --compare && look sheet.jpg
# and on from one format to another
$restore out.webp -o from_webp.png && look from_webp.png
$restore out.png -o from_png.jpg && look from_png.jpg
zenith reconstruct -q --model random:taesd photo.jpg -o again.png >/dev/null && look again.png
zenith reconstruct -q --model random:taesd photo.jpg -o again.jpg --strip >/dev/null && look again.jpg
zenith reconstruct -q --model random:taesd photo.jpg plain.jpg -o several >/dev/null && look several/photo.png && look several/plain.png
# what does not fit into the file, or makes no sense, costs nothing but itself
{ head -c 2 plain.jpg; printf '\xff\xe1\x00\x20Exif\0\0II*\0\xff\xff\xff\xff\xff\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0'; tail -c +3 plain.jpg; } >hostile.jpg
$restore hostile.jpg -o hostile.png && look hostile.png
# the density stays too, from JFIF (bytes 13 to 17: unit, horizontally, vertically) to PNG and back, and when enlarged
{ head -c 13 plain.jpg; printf '\x01\x01\x2c\x01\x2c'; tail -c +19 plain.jpg; } >scan.jpg
dpi() { echo "$1: $(zenith info --json "$1" | grep -o '"dpi": [0-9]*')"; }
dpi plain.jpg
$restore scan.jpg -o scan.png && dpi scan.png
$restore scan.png -o back.jpg && dpi back.jpg
$restore scan.jpg -o bare.jpg --strip && dpi bare.jpg
zenith upscale -q --model random:zenith-restore scan.jpg -o large.jpg && dpi large.jpg
zenith reconstruct -q --model random:taesd scan.jpg -o again.jpg >/dev/null && dpi again.jpg
