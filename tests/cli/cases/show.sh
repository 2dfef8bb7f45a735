# Pictures in the terminal, one protocol after the other.
makeimage tiny.png 2 3
makeimage wide.png 300 20
ZENITH_SHOW=blocks zenith info tiny.png --show | tail -2 | cat -v
ZENITH_SHOW=blocks zenith info wide.png --show | tail -3 | head -1 | grep -o '▀' | wc -l
ZENITH_SHOW=kitty zenith info wide.png --show >kitty
cat -v kitty | grep -o '\^\[_G[^;]*;' | sort | uniq -c | tr -s ' '
# Put together, the chunks are a PNG again.
tr -d '\n' <kitty | sed -E 's/\x1b\\/\n/g' | sed -nE 's/.*\x1b_G[^;]*;//p' | tr -d '\n' | base64 -d >kitty.png
zenith info --json kitty.png | jsoncheck -p kind width
ZENITH_SHOW=iterm zenith info wide.png --show | tail -1 | tr -d '\a' | sed 's/.*://' | base64 -d >iterm.png
zenith info --json iterm.png | jsoncheck -p kind width
ZENITH_SHOW=sixel zenith info tiny.png --show | tail -1 | cat -v | sed -E 's/(#[0-9]+;2;[0-9]+;[0-9]+;[0-9]+)+/PALETTE/'
KITTY_WINDOW_ID=1 zenith info tiny.png --show | grep -c '_Ga=T'
TERM_PROGRAM=iTerm.app zenith info tiny.png --show | grep -c '1337;File='
TERM=foot zenith info tiny.png --show | grep -c 'P0;1;0q'
TERM=screen KITTY_WINDOW_ID=1 zenith info tiny.png --show | grep -c '▀'
zenith encode -q --model random:taesd wide.png -o z.safetensors --show | grep -c '▀'
# With --json the picture stays off stdout.
ZENITH_SHOW=blocks zenith info --json tiny.png --show 2>picture | jsoncheck kind && grep -c '▀' picture
