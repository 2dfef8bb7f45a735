# The bench: a line for each figure, with --profile a row for each layer whose times add up to the whole.
zenith bench -q --size 96x64 --runs 2 --threads 1 --profile
zenith bench -q --size 96x64 --runs 3 --threads 1 --profile --json >json
jsoncheck -p ms_median ms_min <json | { read -r median; read -r least; awk "BEGIN { exit !($least > 0 && $median >= $least) }"; } || echo "times are wrong"
