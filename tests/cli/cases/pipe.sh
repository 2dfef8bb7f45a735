# A reader that goes away: no crash, no message, a non-zero exit status.
makeimage a.png 24 16
for line in "help" "help encode" "compare a.png a.png" "info a.png --json" "info a.png --show" "--version"; do
    { sleep 0.2; zenith $line; echo "$line: $?" >>statuses; } | true
done
cat statuses
