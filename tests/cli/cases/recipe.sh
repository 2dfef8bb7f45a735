# A recipe can be printed, changed on the command line and read back; a run that evaluates nothing says so.
zenith train --print zenith-r >mine.yaml
zenith train --print mine.yaml | cmp - mine.yaml
zenith train --print zenith-r --set lr=1e-3 --set loss.l1=0.25 --set batch=2 | diff mine.yaml -
zenith distill --print --student zenith-r-wide >student.yaml
zenith distill --print --student student.yaml | cmp - student.yaml
zenith distill --print --student zenith-r --set distill.joint=7 | grep -A4 '^distill'
zenith train --print zenith-hier --set gates.penalty=0.1 | grep -A2 '^gates'
for bad in lr lr=fast batch=0 nosuch=1 loss=1 precision=f64; do
    zenith train --print zenith-r --set $bad
    echo "$bad $?"
done
zenith train --print
echo "nothing $?"
# A setting that nothing would read is refused, with the one that it needs.
zenith train --print restore --set damage.noise=0
echo "unused $?"
zenith train --print restore --set damage.noise=0 --set damage.mix=photo | grep -A8 '^damage'
zenith train --print restore-photo --set damage.mix=plain | grep -c '^damage'
for setting in damage.mix=photo loss.kl_rise=0.5 points.least=0.2 shift=2; do
    zenith train --print zenith-r --set $setting 2>&1 | head -1
done
printf 'model: zenith-restore\ntask: restore\ndamage: {noise: 20}\n' >damage.yaml
zenith train --print damage.yaml
echo "unused in a file $?"
: >empty.yaml
zenith train --print empty.yaml
printf '# to do\n\n' >empty.yaml
zenith train empty.yaml --data . -o run
echo "empty $?"
for text in '---' 'loss: {}'; do
    echo "$text" >empty.yaml
    zenith train --print empty.yaml
    echo "$text $?"
done
zenith distill --print --student empty.yaml
echo "empty student $?"
# An unknown name is answered with the nearest one, or with where to look.
zenith train --print zenit-r
zenith train --print nosuch
zenith distill --print --student taesd-haf

mkdir pictures
for n in 1 2 3 4; do makeimage pictures/$n.png 40 4$n; done
small="--set width=8 --set size=16 --set batch=1 --set steps=1 --set warmup=1 --set loss.bands=0"
zenith train taesd $small --data pictures -o run | grep -E '^(steps|psnr)'
grep -E '^(width|batch|  bands)' run/recipe.yaml
zenith train taesd $small --set held_out=40 --data pictures -o evaluated | grep -cE '^psnr .* dB'
# A resumed run accepts the same settings again and no others.
zenith train taesd $small --data pictures -o run --resume -q >/dev/null && echo "the same"
zenith train taesd --data pictures -o run --resume -q >/dev/null && echo "not given again"
zenith train --resume --set batch=2 --data pictures -o run
echo "another $?"
# Losses that a task does not have are refused.
printf 'model: diffae-celeba64\ntask: diffuse\nloss: {l1: 1}\n' >diffuse.yaml
zenith train diffuse.yaml --data pictures -o diffused
echo "loss $?"
zenith distill --teacher random:taesd --student taesd-half $small --set distill.encoder=1 --set distill.decoder=1 --set distill.joint=1 \
    --set held_out=40 --data pictures -o distilled | grep '^steps'
