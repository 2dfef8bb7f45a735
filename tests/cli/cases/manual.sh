# The completions and the OPTIONS section of the manual page are those of this program's tables, the page has every
# command, and the completions offer what exists.
mkdir -p generated/completions generated/man
cp "$SOURCE/man/zenith.1" generated/man/
bash "$SOURCE/scripts/generate.sh" zenith generated || exit 1
for file in completions/zenith.bash completions/_zenith completions/zenith.fish man/zenith.1; do
    diff -u "$SOURCE/$file" generated/$file || echo "$file is stale: run scripts/generate.sh"
done
zenith help --completions tcsh
echo "tcsh $?"

commands=$(zenith help | sed -nE '/^commands/,/^$/s/^  ([a-z]+) .*/\1/p' | grep -vE '^(help|version)$')
sed 's/\\-/-/g; s/\\f[A-Z]//g' "$SOURCE/man/zenith.1" >page
for command in $commands; do
    grep -qE "^\.B $command\$" page || echo "the manual page lacks the command $command"
    grep -qE "^zenith $command( |\$)" page || echo "the synopsis lacks the command $command"
    # What the help has in brackets, nobody must give.
    for option in $(zenith help $command | sed -n '1,/^$/p' | grep -oE '\[-[a-z-]+' | tr -d '['); do
        ! grep -E "^zenith $command .*\[OPTIONS\]\$" page | grep -e "$option " | grep -vE "\[[^]]*$option" ||
            echo "the synopsis of $command does not say that $option may be left out"
    done
done
for command in $commands; do zenith help $command; done | sed -nE 's/^  (-., |    )(--[a-z0-9-]+).*/\2/p' | sort -u >options
[[ $(wc -l <options) -ge 20 ]] || echo "too few options found"
# The page names no option that does not exist.
printf '%s\n' --completions --man-options >>options
sed -nE '/^\.B/s/.*(--[a-z0-9-]+).*/\1/p' page | sort -u | while read -r name; do
    grep -qxe "$name" options || echo "the manual page has an unknown $name"
done
grep -q "\"$(zenith --version)\"" page || echo "the manual page is of another version"

# The bash completion offers each command exactly its own options.
source "$SOURCE/completions/zenith.bash" 2>/dev/null || complete() { :; }
complete_words() { # the words so far; the last one is the one to complete
    COMP_WORDS=(zenith "$@") COMP_CWORD=$#
    _zenith
    printf '%s\n' "${COMPREPLY[@]}"
}
for command in $commands; do
    zenith help $command | sed -nE 's/^  (-., |    )(--[a-z0-9-]+).*/\2/p' | sort >own
    complete_words $command -- | sort | cmp - own || echo "bash completion of $command differs from its help"
done
# What it offers in place of a recipe or a student is what there is.
names_below() { zenith help "$2" | sed -nE "/^$1/,/^\$/s/^  ([^ ]+) .*/\1/p"; }
complete_words train "" | cmp - <(names_below recipes train)
complete_words distill --student "" | cmp - <(names_below students distill)
complete_words encode --precision b
complete_words train --precision ""
complete_words encode --tile o
complete_words dataset ""
export ZENITH_MODELS=$SOURCE/weights
complete_words encode -m zenith-r
if command -v fish >/dev/null; then
    fish -c "source $SOURCE/completions/zenith.fish; complete -C 'zenith encode -m zenith-r'" | cut -f1 | diff - <(printf '%s\n' zenith-r zenith-restore zenith-restore-fast)
    fish -c "source $SOURCE/completions/zenith.fish; complete -C 'zenith dataset info --si'" | grep -q '^--size' || echo "fish: no --size"
fi
! command -v zsh >/dev/null || zsh -n "$SOURCE/completions/_zenith"
echo checked
