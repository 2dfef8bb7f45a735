# Help in all its spellings, wrapped to the terminal; each command's two spellings agree and go to stdout.
zenith help >all || exit 1
grep -oE '^ +(-[a-z], )?--[a-z-]+' all | sort | uniq -d | sed 's/.*--/zenith help lists an option twice: --/'
for word in --help -h "help --help" "help help"; do zenith $word | cmp - all || exit 1; done
for command in encode decode reconstruct restore upscale edit interpolate sample generate compare info convert models pull bench train dataset distill eval serve; do
    grep -q "^  $command " all || echo "zenith help does not list $command"
    zenith help $command >one || exit 1
    zenith $command --help | cmp - one || exit 1
    zenith $command -h | cmp - one || exit 1
    sed '/^$/q' one
    # Lines fit the terminal, and every width has the same words.
    for columns in 60 80 132; do
        COLUMNS=$columns zenith help $command | awk -v c=$columns 'length > c { print "longer than " c ": " $0 }'
        COLUMNS=$columns zenith help $command | tr -s ' \n' '\n\n' | cmp - <(tr -s ' \n' '\n\n' <one)
    done
    (unset COLUMNS; zenith help $command) | cmp - one
    for option in --json --quiet --verbose --help --version; do
        grep -q -e " $option" one || echo "zenith help $command does not list $option"
    done
done
# Every bundled model is named.
zenith help models | tr -s ' \n' '\n\n' >words
for model in $(cd "$SOURCE/weights" && ls -d */ *.safetensors); do
    name=${model%/}
    grep -qxE "${name%.safetensors},?" words || echo "zenith help models does not name $name"
done
zenith --version
zenith encode --version
zenith version
