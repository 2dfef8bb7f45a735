# Options that videos do not take are refused before the work; folders called like videos are folders. The files and models
# that are not there are not looked for.
export ZENITH_MODELS=$PWD/none
try() { zenith "$@"; echo "$1: $?"; }
try reconstruct nosuch.mp4 -m nosuch --keep 10% -o out.mp4
try reconstruct nosuch.mp4 -m nosuch --scale 2 -o out.mp4
