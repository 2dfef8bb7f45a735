#!/usr/bin/env bash
# film.sh ZENITH SOURCE: videos as cameras and phones write them (rotated, 10 bits, with audio, at varying rates) through
# zenith reconstruct. Made and examined with the programs ffmpeg and ffprobe; exit 77 (skipped) where these, an encoder
# or video in this build are missing.
set -u
zenith=$1 source=$2
model=$source/tests/golden/wan/taew2_1.safetensors
export ZENITH_MODELS=/nowhere LC_ALL=C
source "$source/tests/skip.sh"
command -v ffmpeg >/dev/null && command -v ffprobe >/dev/null || skip "there is no ffmpeg"
work=$(mktemp -d "${TMPDIR:-/tmp}/zenith-film.XXXXXX") || exit 99
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 99
failures=0
fail() { echo "FAILED: $*"; failures=1; }

make_film() { ffmpeg -hide_banner -loglevel error -y "$@" </dev/null; }
picture=(-f lavfi -i testsrc2=size=16x12:rate=25:duration=0.4,scale=64x48) # smooth: chroma has half the resolution
sound=(-f lavfi -i sine=frequency=440:duration=0.4)
bt709=(-colorspace bt709 -color_primaries bt709 -color_trc bt709)
if ! make_film "${picture[@]}" "${sound[@]}" -c:v libx264 -crf 4 -pix_fmt yuv420p "${bt709[@]}" -c:a aac -metadata title=Trip plain.mp4 2>none ||
    "$zenith" info plain.mp4 2>&1 | grep -q 'not supported in this build'; then
    skip "there is no H.264 encoder, or no video in this build"
fi

# One property of the first stream of a type: property FILE v|a NAME
property() { ffprobe -v error -select_streams "$2:0" -show_entries "stream=$3" -of csv=p=0 "$1" | head -1 | tr -d ','; }
times() { ffprobe -v error -select_streams v:0 -show_entries frame=best_effort_timestamp_time -of csv=p=0 "$1" | tr -d , | grep .; }
audio_of() { ffmpeg -v error -i "$1" -map 0:a -c copy -f md5 - </dev/null; }
# Mean PSNR of the first of the three images of a comparison, which stand 8 pixels apart, against its video, which ffmpeg
# turns upright: tells whether reading and writing keep orientation, order and colours.
fidelity() {
    ffmpeg -hide_banner -i "$1" -i "$2" -lavfi '[0:v]crop=(iw-16)/3:ih:0:0,format=gbrp[a];[1:v]format=gbrp[b];[a][b]psnr' -f null - </dev/null 2>&1 |
        sed -n 's/.*average:\([0-9.inf]*\).*/\1/p'
}
at_least() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a == "inf" || a + 0 >= b) }'; }
run() { "$zenith" reconstruct -m "$model" "$@" >out.txt 2>err.txt || fail "reconstruct $*: $(cat err.txt)"; }

# check NAME INPUT OUTPUT FRAMES: what every result must keep.
check() {
    run -q "$2" -o "$3"
    [[ $(times "$3" | wc -l) == "$4" ]] || fail "$1: $(times "$3" | wc -l) frames instead of $4"
    diff <(times "$2") <(times "$3") >diff.txt || fail "$1: times differ: $(cat diff.txt)"
    [[ $(audio_of "$2" 2>&1) == "$(audio_of "$3" 2>&1)" ]] || fail "$1: the audio differs"
    local p
    for p in color_range color_space color_primaries color_transfer; do
        [[ $(property "$2" v $p) == "$(property "$3" v $p)" ]] || fail "$1: $p is $(property "$3" v $p), not $(property "$2" v $p)"
    done
    run -q --compare "$2" -o "compare_$3"
    at_least "$(fidelity "compare_$3" "$2")" 33 || fail "$1: the original in the comparison has $(fidelity "compare_$3" "$2") dB"
}

check plain plain.mp4 plain_out.mp4 10
[[ $(ffprobe -v error -show_entries format_tags=title -of csv=p=0 plain_out.mp4) == Trip ]] || fail "the title is lost"
run -q --strip plain.mp4 -o stripped.mp4
[[ -z $(ffprobe -v error -show_entries format_tags=title -of csv=p=0 stripped.mp4) ]] || fail "--strip keeps the title"

# Full range and the matrix of BT.601; PCM, which .mp4 does not hold but .mov does.
if make_film "${picture[@]}" "${sound[@]}" -c:v libx264 -crf 4 -pix_fmt yuvj420p -color_range pc -colorspace smpte170m -c:a pcm_s16le full.mov; then
    check full full.mov full_out.mov 10
    run full.mov -o full_out.mp4
    grep -qx 'zenith: full_out.mp4: without the audio (pcm_s16le) of full.mov; .mkv holds any audio' err.txt || fail "not told that audio is left out: $(cat err.txt)"
fi

# FLAC: FFmpeg answers that .mov holds it, and then refuses to write the header.
if make_film "${picture[@]}" "${sound[@]}" -c:v libx264 -crf 4 -pix_fmt yuv420p "${bt709[@]}" -c:a flac flac.mkv; then
    check flac flac.mkv flac_out.mkv 10
    run flac.mkv -o flac_out.mov
    grep -q 'without the audio (flac) of flac.mkv' err.txt || fail "not told that FLAC is left out: $(cat err.txt)"
fi

# As a phone writes it: HEVC, 10 bits, on its side, AAC.
if make_film "${picture[@]}" "${sound[@]}" -c:v libx265 -crf 4 -x265-params log-level=none -pix_fmt yuv420p10le -tag:v hvc1 \
    -colorspace bt2020nc -color_primaries bt2020 -color_trc arib-std-b67 -c:a aac lying.mov 2>/dev/null; then
    make_film -display_rotation -90 -i lying.mov -c copy phone.mov 2>/dev/null || make_film -i lying.mov -c copy -metadata:s:v rotate=90 phone.mov
    check phone phone.mov phone_out.mp4 10
    [[ $(property phone_out.mp4 v width)x$(property phone_out.mp4 v height) == 48x64 ]] || fail "phone: not upright"
    [[ $(property phone_out.mp4 v pix_fmt) == yuv420p10le ]] || fail "phone: $(property phone_out.mp4 v pix_fmt)"
    run -q --compare phone.mov -o phone_compare.mp4
    [[ $(property phone_compare.mp4 v pix_fmt) == yuv420p10le ]] || fail "phone: compared as $(property phone_compare.mp4 v pix_fmt)"
    deep=$(ffmpeg -v error -i phone_compare.mp4 -frames:v 1 -vf crop=48:64:0:0,format=gray10le -f rawvideo - </dev/null | od -An -v -tu2 -w2 | awk '$1 % 4' | wc -l)
    [[ $deep -gt 1500 ]] || fail "phone: only $deep of 3072 pixels of the original in the comparison have more than 8 bits"
    "$zenith" info phone.mov | grep -q -E '^rotation +(90|270)' || fail "info does not show the rotation"
fi

# A varying rate, and subtitles.
printf '1\n00:00:00,000 --> 00:00:00,400\nhello\n' >words.srt
make_film -i plain.mp4 -i words.srt -vf "setpts='if(lt(N,5),N*0.04,0.2+(N-5)*0.1)/TB'" -vsync vfr -c:v libx264 -crf 4 -c:a copy -c:s srt varying.mkv
check varying varying.mkv varying_out.mkv 10
[[ $(property varying_out.mkv s codec_name) == subrip ]] || fail "the subtitles are lost"
run varying.mkv -o again.mkv
grep -q 'its frame rate varies, with 40 to 120 ms between frames' err.txt || fail "not told that the rate varies: $(cat err.txt)"

# Chapters are kept, as is what HDR states; other streams are named, with no advice that does not help.
{ echo ';FFMETADATA1' && printf '[CHAPTER]\nTIMEBASE=1/10\nSTART=%s\nEND=%s\ntitle=%s\n' 0 2 One 2 4 Two; } >chapters.txt
chapters() { ffprobe -v error -show_chapters -of csv=p=0 "$1" | cut -d, -f3-; }
make_film -i plain.mp4 -i chapters.txt -map 0:v -map 0:a -map_metadata 1 -c copy chapters.mp4
run chapters.mp4 -o chapters_out.mkv
[[ $(chapters chapters_out.mkv | grep -c -E 'One|Two') == 2 && ! -s err.txt ]] || fail "chapters: $(chapters chapters_out.mkv) $(cat err.txt)"
run chapters.mp4 -o chapters_out.mp4 --strip
[[ -z $(chapters chapters_out.mp4) && ! -s err.txt ]] || fail "--strip keeps chapters: $(chapters chapters_out.mp4) $(cat err.txt)"
make_film -f lavfi -i testsrc=size=16x16:duration=0.04 -frames:v 1 cover.png
make_film -i plain.mp4 -i cover.png -i plain.mp4 -map 0 -map 1 -map 2:v -c copy -disposition:v:1 attached_pic cover.mp4
run cover.mp4 -o cover_out.mkv
grep -qx 'zenith: cover_out.mkv: without the other video (h264), cover art (png) of cover.mp4' err.txt || fail "cover art: $(cat err.txt)"
make_film -i plain.mp4 -i words.srt -c copy -c:s mov_text words.mp4
run words.mp4 -o words_out.mkv
grep -qx 'zenith: words_out.mkv: without the subtitles (mov_text) of words.mp4' err.txt || fail "subtitles: $(cat err.txt)"
if make_film "${picture[@]}" -c:v libx265 -pix_fmt yuv420p10le -x265-params \
    'log-level=none:hdr10=1:repeat-headers=1:master-display=G(13250,34500)B(7500,3000)R(34000,16000)WP(15635,16450)L(10000000,1):max-cll=1000,400' hdr.mkv 2>none &&
    ffprobe -v error -show_streams hdr.mkv | grep -q 'max_content=1000'; then
    run -q hdr.mkv -o hdr_out.mkv
    ffprobe -v error -show_streams hdr_out.mkv | grep -q 'max_content=1000' || fail "hdr: the brightness is lost"
fi
make_film "${picture[@]}" -vf tinterlace=interleave_top,setfield=tff -c:v libx264 -flags +ilme+ildct -crf 4 fields.mp4
run fields.mp4 -o fields_out.mp4
grep -q '^zenith: fields.mp4: [0-9]* of its frames are interlaced and are taken as whole images' err.txt || fail "not told of fields: $(cat err.txt)"

# Odd sides get one more line.
if make_film -f lavfi -i testsrc=size=63x47:rate=10:duration=0.5 -c:v libvpx-vp9 -pix_fmt yuv444p odd.webm 2>/dev/null; then
    run -q odd.webm -o odd.mkv
    [[ $(property odd.mkv v width)x$(property odd.mkv v height) == 64x48 ]] || fail "odd: $(property odd.mkv v width)"
fi

# As browsers record: VP8, whose range and matrix only the container states.
if make_film -f lavfi -i color=c=0xe0d8c0:size=64x48:rate=10:duration=0.5 -vf scale=out_range=pc:out_color_matrix=bt709 -c:v libvpx -b:v 1M \
    -color_range pc -colorspace bt709 recorded.webm 2>/dev/null && [[ $(property recorded.webm v color_range) == pc ]]; then
    run -q --compare recorded.webm -o recorded.mkv
    read -r r g b < <(ffmpeg -v error -i recorded.mkv -frames:v 1 -vf crop=32:24:8:8,scale=1:1 -f rawvideo -pix_fmt rgb24 - </dev/null | od -An -tu1)
    awk -v r="$r" -v g="$g" -v b="$b" 'BEGIN { exit !((r - 224)^2 < 17 && (g - 216)^2 < 17 && (b - 192)^2 < 17) }' || fail "recorded: $r $g $b, not 224 216 192"
fi

# An image model takes the frames one by one; without -o only figures are printed.
"$zenith" reconstruct -q --json -m random:taesd plain.mp4 >facts.json || fail "an image model"
grep -q '"frames": *10' facts.json && grep -q '"psnr"' facts.json || fail "facts: $(cat facts.json)"
mine=$source/weights/zenith-r.safetensors
"$zenith" reconstruct -q -m "$mine" plain.mp4 -o still.mp4 || fail "zenith-r"
[[ $(times still.mp4) == "$(times plain.mp4)" && $(audio_of still.mp4) == "$(audio_of plain.mp4)" ]] || fail "zenith-r: times or audio differ"
"$zenith" encode -q -m "$mine" --clip plain.mp4 -o still.safetensors || fail "zenith-r: encode --clip"
"$zenith" decode -q -m "$mine" still.safetensors --rate 25 -o back.mp4 || fail "zenith-r: decode"
[[ $(times back.mp4 | wc -l) == 10 ]] || fail "zenith-r: $(times back.mp4 | wc -l) frames"

# Restored: the model is the one that was used.
for fast in "" --fast; do
    ZENITH_MODELS=$source/weights "$zenith" restore $fast plain.mp4 -o restored.mp4 >out.txt 2>err.txt || fail "restore $fast: $(cat err.txt)"
    grep -qx "model           zenith-restore${fast#-}" out.txt || fail "restore $fast: $(grep ^model out.txt)"
done

# Stopped in the middle: nothing is left.
make_film -f lavfi -i testsrc2=size=320x240:rate=25:duration=60 -c:v libx264 -preset ultrafast long.mp4
"$zenith" reconstruct -q -m "$model" long.mp4 -o stopped.mp4 2>/dev/null &
until compgen -G 'stopped.mp4.tmp-*' >/dev/null || ! kill -0 $! 2>/dev/null; do
    sleep 0.1
done
kill -INT $! 2>/dev/null || fail "it ended before it was stopped"
wait $!
compgen -G 'stopped.mp4*' >/dev/null && fail "left behind: $(echo stopped.mp4*)"

# Cut off, and with errors inside: what is there is processed, and a remark tells what is not.
make_film -i long.mp4 -t 8 -s 160x120 -c:v libx264 -preset ultrafast -g 250 whole.mkv
head -c $(($(wc -c <whole.mkv) / 2)) whole.mkv >cut.mkv
run cut.mkv -o cut_out.mkv
grep -q 'cut.mkv: the file ends [3-5]\.[0-9] seconds before the duration that it states' err.txt || fail "not told that it is cut off: $(cat err.txt)"
grep -q 'could not be decoded' err.txt || [[ $(times cut_out.mkv | wc -l) -gt 50 ]] || fail "cut: $(times cut_out.mkv | wc -l) frames"
"$zenith" encode -m "$model" --clip cut.mkv -o cut.safetensors >out.txt 2>err.txt || fail "encode cut.mkv: $(cat err.txt)"
grep -q 'it seems to be cut off' err.txt || fail "encode: not told that it is cut off: $(cat err.txt)"
if "$zenith" dataset build --clips 2 cut.mkv -o cut.lmdb >out.txt 2>err.txt; then
    grep -q 'cut.mkv: the file ends [3-5]\.[0-9] seconds before the duration that it states: it seems to be cut off' err.txt || fail "dataset: not told that it is cut off: $(cat err.txt)"
else
    grep -q 'no LMDB' err.txt || fail "dataset build of cut.mkv: $(cat err.txt)"
fi
cp whole.mkv hit.mkv
for at in 30 40 50 60; do
    printf 'XXXXXXXXXXXXXXXX' | dd of=hit.mkv bs=1 seek=$(($(wc -c <whole.mkv) * at / 100)) conv=notrunc 2>none
done
if "$zenith" reconstruct -m "$model" hit.mkv -o hit_out.mkv >out.txt 2>err.txt; then
    grep -q 'hit.mkv: [0-9]* frames\? \(of it \)\?could not be decoded' err.txt || fail "not told of errors: $(cat err.txt)"
else
    fail "hit.mkv: $(cat err.txt)"
fi
# a packet that no decoder takes costs its own frame only
make_film -i long.mp4 -t 1 -s 160x120 -c:v libx264 -preset ultrafast -g 250 -bf 0 second.mkv
spoil='noise=amount=if(eq(n\,10)\,1)'
if make_film -i second.mkv -c copy -bsf:v "$spoil" spoilt.mkv 2>none; then
    run spoilt.mkv -o spoilt_out.mkv
    missing=$((25 - $(times spoilt_out.mkv | wc -l)))
    [[ $missing == 0 ]] || grep -q "^zenith: spoilt.mkv: $missing frames\? could not be decoded and \(is\|are\) missing" err.txt || fail "not told of a spoilt packet: $(cat err.txt)"
    [[ $missing -le 5 ]] || fail "spoilt: $missing frames are missing"
    grep -q 'frame rate varies' err.txt && fail "a missing frame counts as a varying rate: $(cat err.txt)"
    "$zenith" dataset build -f --clips 2 spoilt.mkv -o spoilt.lmdb >out.txt 2>err.txt || grep -q 'no LMDB' err.txt || fail "dataset build of spoilt.mkv: $(cat err.txt)"
    mkdir many && for n in {10..31}; do cp spoilt.mkv many/$n.mkv; done
    "$zenith" dataset build -f --clips 2 many -o spoilt.lmdb >out.txt 2>many.txt || grep -q 'no LMDB' many.txt || fail "dataset build of many: $(cat many.txt)"
    [[ $missing == 0 ]] || grep -q 'no LMDB' many.txt || [[ $(grep -vc '%, ' many.txt) == 21 && $(grep -v '%, ' many.txt | tail -1) == 'zenith: more videos have faults' ]] ||
        fail "dataset build of many: $(cat many.txt)"
    [[ $missing == 0 ]] || grep -q "spoilt.mkv: $missing frames\? could not be decoded\|no LMDB" err.txt || fail "dataset: not told of a spoilt packet: $(cat err.txt)"
fi
if make_film -i second.mkv -c copy -bsf:v 'noise=amount=1' lost.mkv 2>none; then
    for work in "reconstruct -m $model lost.mkv -o no.mkv" "encode -m $model --clip lost.mkv -o no.latent" "restore -q -m random:zenith-restore lost.mkv -o no.mkv"; do
        "$zenith" $work >out.txt 2>err.txt && fail "accepted: $work"
        [[ $(cat err.txt) == 'zenith: lost.mkv: none of its 25 frames could be decoded' && ! -e no.mkv ]] || fail "$work: $(cat err.txt)"
    done
    "$zenith" dataset build --clips 2 lost.mkv -o lost.lmdb >out.txt 2>err.txt && fail "accepted: dataset build of lost.mkv"
    grep -q '^zenith: lost.mkv: none of its 25 frames could be decoded$\|no LMDB' err.txt || fail "dataset build of lost.mkv: $(cat err.txt)"
fi
make_film -i second.mkv -c copy -movflags +faststart second.mp4
head -c $(($(wc -c <second.mp4) / 2)) second.mp4 >half.mp4
run half.mp4 -o half_out.mp4
grep -q 'half.mp4: the file ends 0\.[0-9] seconds before' err.txt || fail "not told that half of a second is missing: $(cat err.txt)"
run whole.mkv -o none.mkv
grep -q -E 'cut off|could not be decoded' err.txt && fail "remarks on a whole film: $(cat err.txt)"
for kind in mkv mp4; do # the first frame is shown after five seconds, from which the duration does not count
    make_film -i plain.mp4 -c copy -output_ts_offset 5 late.$kind
    run late.$kind -o none.mkv
    grep -q -E 'cut off|could not be decoded' err.txt && fail "remarks on a film that begins late: $(cat err.txt)"
done

# The result is written as images are: through a symbolic link, with the permissions of the file that it replaces.
cp plain.mp4 target.mp4 && chmod 600 target.mp4 && ln -s target.mp4 link.mp4
run -q plain.mp4 -o link.mp4
[[ -L link.mp4 && $(stat -c %a target.mp4) == 600 ]] || fail "link: $(ls -l link.mp4 target.mp4)"
cmp -s plain.mp4 target.mp4 && fail "the target of the link is not written"

# Refused before the work.
refuse() { "$zenith" reconstruct -m "$model" "${@:2}" 2>err.txt >/dev/null && fail "accepted: ${*:2}"; grep -q "$1" err.txt || fail "${*:2}: $(cat err.txt)"; }
refuse 'so the result must be one too' plain.mp4 -o plain.png
refuse "the result 'back.mp4' is a video, so the input must be a video file" - -o back.mp4 </dev/null
refuse 'is for images' plain.mp4 -o back.mp4 --quality 50
refuse 'tiles of videos are blended: give --blend with --tile' plain.mp4 -o back.mp4 --tile 64
make_film -i plain.mp4 -vf scale=48:32 -an -c:v libx264 small.ts
make_film -i plain.mp4 -an -c copy large.ts
cat large.ts small.ts >sizes.ts && make_film -i sizes.ts -c copy sizes.mkv
refuse '^zenith: sizes.mkv: image 11 is 48x32, and those before it are 64x48: a clip has one size$' sizes.mkv -o back.mkv
"$zenith" restore -q -m random:zenith-restore sizes.mkv -o back.mkv 2>err.txt >/dev/null && fail "accepted: restore sizes.mkv"
grep -q ': image 11 is 48x32, and those before it are 64x48: a video has one size$' err.txt || fail "restore sizes.mkv: $(cat err.txt)"
mkdir -p folder.mp4 && refuse 'is a folder' plain.mp4 -o folder.mp4
mkfifo pipe.mp4 && refuse '^zenith: pipe.mp4: a pipe or device; a video needs a regular file$' plain.mp4 -o pipe.mp4
[[ -p pipe.mp4 ]] || fail "the pipe is gone"
make_film "${sound[@]}" -c:a aac sound.mp4 && refuse 'there is no video in the file, only audio' sound.mp4
echo junk >junk.mp4 && refuse 'junk.mp4: not a video that FFmpeg can read' junk.mp4
# FFmpeg goes by the content: a playlist must not make it open other files.
make_film -i plain.mp4 -an -c copy -f mpegts secret.ts
printf '#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:0.4,\n%s\n#EXT-X-ENDLIST\n' "$work/secret.ts" >list.mp4
refuse 'list.mp4: not an MP4, MOV, MKV, WebM, AVI or GIF video' list.mp4
printf 'ffconcat version 1.0\nfile secret.ts\n' >concat.mp4 && refuse 'concat.mp4: not an MP4, MOV,' concat.mp4
cp plain.mp4 plain.png && refuse 'plain.png: a video, not an image$' plain.png
make_film -i plain.mp4 -ss 9 -c copy nothing.mkv && refuse 'not a video that FFmpeg can read' nothing.mkv
"$zenith" compare plain.mp4 plain.mp4 2>err.txt && fail "compare takes videos"
grep -q "'plain.mp4' is a video" err.txt || fail "compare of videos: $(cat err.txt)"
"$zenith" encode -m "$model" plain.mp4 -o still.safetensors 2>err.txt && fail "encode takes a video without --clip"
grep -q 'a video is encoded with --clip' err.txt || fail "encode without --clip: $(cat err.txt)"
for rate in 30000/1001 23.976; do
    "$zenith" decode -q -m "$mine" still.safetensors --rate $rate -o back.mp4 || fail "decode --rate $rate"
    at_least "$(times back.mp4 | tail -1)" 0.3 && at_least 0.376 "$(times back.mp4 | tail -1)" || fail "--rate $rate: $(times back.mp4 | tail -1)"
done
refuse 'a video is processed alone' plain.mp4 varying.mkv -o out
refuse 'would replace the input' plain.mp4 -o ./plain.mp4
exit $failures
