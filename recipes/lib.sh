# What the recipes share; each run.sh sources this file. Bash 4.4 or later, curl, tar and gzip.
#
#   SCALE=tiny      the whole script in minutes: 2,000 training pairs, 20 sentences to develop and to test on, 3 updates;
#                   in a folder of its own, work/RECIPE-tiny
#   MIRROR=http://host:port/folder      takes every download from there, under the path that it has on its own host.
#                   Published sizes and checksums are not asked of a mirror: the tests serve small files of these names.

tiny_training=()
if [ "${SCALE:-full}" = tiny ]; then
    tiny_training=(--set training.max_updates=3 --set training.batch_sentences=8 --set training.batch_tokens=null)
fi

# fetch URL [MD5]: download/HOST/PATH; a download that was broken off goes on where it stopped.
fetch() {
    local file=download/${1#*://} url=${MIRROR:+$MIRROR/${1#*://*/}}
    if [ -e "$file" ]; then return; fi
    curl --fail --location --continue-at - --create-dirs --output "$file.part" "${url:-$1}"
    if [ -z "${MIRROR:-}" ] && [ -n "${2:-}" ]; then
        echo "$2  $file.part" | md5sum --check --quiet || stop "$file.part is not what was published; delete it"
    fi
    mv "$file.part" "$file"
}

# check_lines SRC TGT [N]: both sides have as many lines, and as many as were published.
check_lines() {
    local src tgt
    src=$(wc -l < "$1")
    tgt=$(wc -l < "$2")
    [ "$src" = "$tgt" ] || stop "$1 has $src lines but $2 has $tgt"
    [ -n "${MIRROR:-}" ] || [ "$src" = "${3:-$src}" ] || stop "$1 has $src lines and should have $3; fetch it again"
}

# collect OUT LINES FILE...: the files after each other; under SCALE=tiny, LINES lines with an equal share of each.
collect() {
    local out=$1 lines=$2
    shift 2
    mkdir -p "$(dirname "$out")"
    if [ "${SCALE:-full}" = tiny ]; then head -q -n $((lines / $#)) "$@"; else cat "$@"; fi > "$out.part"
    mv "$out.part" "$out"
}

# segments FILE: the sentences of an SGML or XML test set, one a line.
segments() {
    sed -n '/<seg /{s/.*<seg [^>]*>[[:space:]]*//; s/[[:space:]]*<\/seg>.*//; p}' "$1"
}

stop() {
    echo "$0: $1" >&2
    exit 1
}
