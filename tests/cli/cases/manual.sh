# The manual page and the three completions know every command and every option, and no option that does not exist.
commands="encode decode reconstruct restore edit interpolate sample compare info convert models bench train dataset distill eval"
for command in $commands; do zenith help $command; done |
    sed -nE 's/^ +(-(.), )? *--([a-z0-9-]+).*/\2 \3/p' | sort -u >options
[[ $(wc -l <options) -ge 20 ]] || echo "too few options found"
sed 's/\\-/-/g; s/\\f[A-Z]//g' "$SOURCE/man/zenith.1" >page
while read -r letter name; do
    [[ -n $name ]] || { name=$letter letter=; }
    grep -qE -e "^\.(B|BR) .*--$name( |$)" page || echo "the manual page lacks --$name"
    grep -q -e "--$name[ \"]" "$SOURCE/completions/zenith.bash" || echo "bash: no --$name"
    grep -q -e "--$name[[}]" "$SOURCE/completions/_zenith" || echo "zsh: no --$name"
    grep -q -e " -l $name " "$SOURCE/completions/zenith.fish" || echo "fish: no --$name"
    [[ -z $letter ]] && continue
    grep -qE -e "^\.BR -$letter \", \" --$name" page || echo "the manual page lacks -$letter"
    grep -q -e "-$letter,--$name" "$SOURCE/completions/_zenith" || echo "zsh: no -$letter"
    grep -q -e " -s $letter -l $name " "$SOURCE/completions/zenith.fish" || echo "fish: no -$letter"
done <options
for command in $commands; do
    grep -qE "^\.B $command\$" page || echo "the manual page lacks the command $command"
    grep -q "$command" "$SOURCE/completions/zenith.bash" && grep -q "'$command:" "$SOURCE/completions/_zenith" &&
        grep -q -e "-a $command " "$SOURCE/completions/zenith.fish" || echo "completions: no $command"
done
# Nothing there that the program does not know.
sed -nE 's/^\.(B|BR) .*--([a-z0-9-]+).*/\2/p' page | sort -u | while read -r name; do
    grep -qE "(^| )$name\$" options || echo "the manual page has an unknown --$name"
done
# The bash completion offers each command exactly its own options.
source "$SOURCE/completions/zenith.bash" 2>/dev/null || complete() { :; }
for command in $commands; do
    zenith help $command | sed -nE 's/^ +(-., )? *(--[a-z0-9-]+).*/\2/p' | sort >own
    COMP_WORDS=(zenith $command --) COMP_CWORD=2
    _zenith
    printf '%s\n' "${COMPREPLY[@]}" | sort >offered
    missing=$(comm -23 own offered)
    [[ -z $missing ]] || echo "bash completion of $command lacks: $missing"
done
# What it offers in place of a recipe or a student is what there is.
offers() { # WORD... is completed by the names that `zenith help COMMAND` has below TITLE
    local title=$1
    shift
    COMP_WORDS=(zenith "$@" "") COMP_CWORD=$(($# + 1))
    _zenith
    printf '%s\n' "${COMPREPLY[@]}" | cmp - <(zenith help "$1" | sed -nE "/^$title/,/^\$/s/^  ([^ ]+) .*/\1/p")
}
offers recipes train
offers students distill --student
zenith help >all
version=$(zenith --version)
grep -q "\"$version\"" page || echo "the manual page is not of $version"
bash -n "$SOURCE/completions/zenith.bash"
echo checked
