# What learns from conditions asks for an autoencoder and for labels; mistakes are one sentence, and nothing is left behind.
mkdir pictures
makeimage pictures/a.png 40 40
makeimage pictures/b.png 48 40
try() {
    zenith train "$@" --data pictures -o run
    echo "status $?"
}
try diffae-latent
try diffae-classifier --from nothing
printf 'file,bald\na.png,1\nb.png,perhaps\n' >bad.csv
try diffae-classifier --from nothing --labels bad.csv
printf 'file,bald,young\na.png,1\n' >pictures/labels.csv
try diffae-classifier --from nothing
printf 'bald young\na.png 1 -1\nb.png -1 1\n' >pictures/labels.csv
try diffae-classifier
try zenith-r --labels pictures/labels.csv
[[ ! -e run ]] || echo "a run was begun"
