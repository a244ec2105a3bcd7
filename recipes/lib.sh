# Functions of the recipes; each run.sh sources this file. Needs Bash 4.4 or later, curl, tar and gzip.
#
#   SCALE=tiny      the whole script in minutes: 2,000 training pairs, development and test sets of 20 sentences, 3
#                   updates; in the separate folder work/RECIPE-tiny
#   MIRROR=http://host:port/folder      download everything from there, with the paths of the original hosts. Published
#                   sizes and checksums are not checked: the tests serve small files of the same names.

tiny_training=()
if [ "${SCALE:-full}" = tiny ]; then
    tiny_training=(--set training.max_updates=3 --set training.batch_sentences=8 --set training.batch_tokens=null)
fi

# fetch URL [MD5]: downloads to download/HOST/PATH; an interrupted download is resumed.
fetch() {
    local file=download/${1#*://} url=${MIRROR:+$MIRROR/${1#*://*/}}
    if [ -e "$file" ]; then return; fi
    curl --fail --location --continue-at - --create-dirs --output "$file.part" "${url:-$1}"
    if [ -z "${MIRROR:-}" ] && [ -n "${2:-}" ]; then
        echo "$2  $file.part" | md5sum --check --quiet || stop "$file.part is not what was published; delete it"
    fi
    mv "$file.part" "$file"
}

# check_lines SRC TGT [N]: checks that both sides have equally many lines, and the published number.
check_lines() {
    local src tgt
    src=$(wc -l < "$1")
    tgt=$(wc -l < "$2")
    [ "$src" = "$tgt" ] || stop "$1 has $src lines but $2 has $tgt"
    [ -n "${MIRROR:-}" ] || [ "$src" = "${3:-$src}" ] || stop "$1 has $src lines and should have $3; fetch it again"
}

# collect OUT LINES FILE...: concatenates the files; with SCALE=tiny, only LINES lines, equally many of each.
collect() {
    local out=$1 lines=$2
    shift 2
    mkdir -p "$(dirname "$out")"
    if [ "${SCALE:-full}" = tiny ]; then head -q -n $((lines / $#)) "$@"; else cat "$@"; fi > "$out.part"
    mv "$out.part" "$out"
}

# collect_sets LANGUAGE DEV TEST: makes raw/{train,DEV,TEST}.{en,LANGUAGE} from corpora/, English first.
collect_sets() {
    local target=$1 language set
    shift
    for language in en "$target"; do
        collect raw/train.$language 2000 corpora/train.$language
        for set in "$@"; do collect raw/$set.$language 20 corpora/$set.$language; done
    done
}

# multi30k FOLDER [LANGUAGE]: makes raw/{train,valid,test2016}.{en,LANGUAGE} of Multi30k (LANGUAGE: de), task 1 of
# https://github.com/multi30k/dataset, from FOLDER/{train,valid,test2016}.{en,LANGUAGE}.gz; downloaded if FOLDER is "".
multi30k() {
    local task=github.com/multi30k/dataset/raw/master/data/task1/raw target=${2:-de} set language file
    if [ -e "raw/test2016.$target" ]; then return; fi
    mkdir -p corpora
    for set in train:train valid:val test2016:test_2016_flickr; do
        for language in en "$target"; do
            file=$1/${set%:*}.$language.gz
            if [ -z "$1" ]; then
                file=download/$task/${set#*:}.$language.gz
                fetch "https://$task/${set#*:}.$language.gz"
            fi
            gunzip < "$file" > "corpora/${set%:*}.$language"
        done
    done
    check_lines corpora/train.{en,"$target"} 29000
    check_lines corpora/valid.{en,"$target"} 1014
    check_lines corpora/test2016.{en,"$target"} 1000
    collect_sets "$target" valid test2016
}

# tatoeba FOLDER: makes raw/{train,valid,test}.{en,de}, short everyday sentences, from
# FOLDER/{train,valid,test}.{en,de}.gz; downloaded if FOLDER is "". The pairs of the archive are sorted by the English
# sentence; those of every 80th sentence are for development and for testing, so no test sentence is in training.
tatoeba() {
    local file set
    if [ -e raw/test.de ]; then return; fi
    mkdir -p corpora
    if [ -n "$1" ]; then
        for file in {train,valid,test}.{en,de}; do gunzip < "$1/$file.gz" > "corpora/$file"; done
    else
        fetch https://www.manythings.org/anki/deu-eng.zip
        python3 -m zipfile -e download/www.manythings.org/anki/deu-eng.zip corpora
        awk -F '\t' '
            $1 != last { sentence++; last = $1 }
            { set = sentence % 80 == 0 ? "test" : sentence % 80 == 40 ? "valid" : "train"
              print $1 > ("corpora/" set ".en"); print $2 > ("corpora/" set ".de") }' corpora/deu.txt
    fi
    for set in train valid test; do check_lines corpora/$set.{en,de}; done
    collect_sets de valid test
}

# train_seeds: trains run-$model-SEED on $data for each of ${seeds[@]}. Transformers are averaged, as in Vaswani et al.
# 2017: the last 5 checkpoints, or the last 20 of big models (with SCALE=tiny, 3), into averaged-$model-SEED. Sets
# ${systems[@]}, the models to translate with.
train_seeds() {
    local last=1 seed
    case $model in
        transformer-base*) last=5 ;;
        transformer-big*) last=20 ;;
    esac
    if [ "$last" -gt 1 ] && [ "${SCALE:-full}" = tiny ]; then
        last=3
        tiny_training+=(--set training.valid_every=1)
    fi
    systems=()
    for seed in "${seeds[@]}"; do
        nmtkit train --model "$model" --data $data --output "run-$model-$seed" --seed "$seed" "${tiny_training[@]}"
        systems+=("run-$model-$seed")
        if [ "$last" -gt 1 ]; then
            systems[-1]=averaged-$model-$seed
            [ -e "${systems[-1]}" ] || nmtkit average --model "run-$model-$seed" --last "$last" --output "${systems[-1]}"
        fi
    done
}

# split_compounds LANGUAGE: tokenises plain text with Moses' rules and splits compounds, rich ##AT##-##AT## text.
split_compounds() {
    sacremoses -q -l "$1" tokenize | sed 's/\([^ ]\)-\([^ ]\)/\1 ##AT##-##AT## \2/g'
}

# segments FILE: prints the sentences of an SGML or XML test set, one per line.
segments() {
    sed -n '/<seg /{s/.*<seg [^>]*>[[:space:]]*//; s/[[:space:]]*<\/seg>.*//; p}' "$1"
}

stop() {
    echo "$0: $1" >&2
    exit 1
}
