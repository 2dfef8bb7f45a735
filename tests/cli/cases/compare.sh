# Two images: figures for people; sizes that differ are an error.
makeimage a.png 96 64
makeimage b.png 96 64 2
makeimage c.png 48 64
zenith compare a.png b.png
zenith compare a.png a.png
# LPIPS: with the weights that come with the program; without any only where it is asked for is that an error.
export ZENITH_MODELS="$SOURCE/weights"
zenith compare a.png b.png --lpips squeeze | grep lpips
zenith compare a.png a.png --json | jsoncheck -p identical lpips_alex lpips_squeeze
zenith compare a.png b.png --lpips none --json | jsoncheck -p lpips_squeeze
unset ZENITH_MODELS
zenith compare a.png b.png --lpips alex
# Sets of images: only with weights that do not come with the program.
mkdir set
zenith compare set set
zenith compare a.png c.png
