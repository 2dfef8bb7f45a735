#!/usr/bin/env bash
# links.sh ROOT: every relative link of a Markdown file leads to a file, and every #anchor to a heading.
set -u
cd "$1" || exit 99
failed=0
count=0

# The anchors that GitHub makes of the headings of $1, one a line.
anchors() {
    awk '/^```/ { code = !code } !code && /^#+ / { sub(/^#+ /, ""); print }' "$1" |
        sed -E 's/\[([^]]*)\]\([^)]*\)/\1/g' | tr '[:upper:]' '[:lower:]' | sed -E 's/[^[:alnum:] _-]//g; s/ /-/g'
}

while IFS= read -r page; do
    while IFS= read -r link; do
        [[ $link =~ ^[a-z]+: ]] && continue
        count=$((count + 1))
        path=${link%%#*}
        target=$page
        [[ -z $path ]] || target=$(dirname "$page")/$path
        if [[ ! -e $target ]]; then
            echo "$page: $link does not exist"
            failed=1
        elif [[ $link == *#* && $target == *.md ]] && ! anchors "$target" | grep -qxF -- "${link#*#}"; then
            echo "$page: $target has no heading for #${link#*#}"
            failed=1
        fi
    done < <(grep -oE '\]\([^)[:space:]]+\)' "$page" | sed -E 's/^\]\((.*)\)$/\1/')
done < <(find . -name '*.md' -not -path './build*' -not -path './.git/*')
[[ $count -ge 100 ]] || { echo "only $count links found"; failed=1; }
exit $failed
