#!/usr/bin/env bash
# Spanish to a language of AmericasNLP 2021: from text to a translator and its scores, with every default as it is.
#
#   recipes/low-resource/run.sh aym                     # or bzd, cni, gn, hch, nah, oto, quy, shp, tar
#   CORPUS=folder recipes/low-resource/run.sh aym       # with LANGUAGE.{train,dev}.{es,LANGUAGE}.gz
#   SCALE=tiny recipes/low-resource/run.sh aym          # all of it on a slice, in a minute
#
# Everything is written below WORK (default: work/low-resource). What exists is not made again.
set -euo pipefail
recipe=$(cd "$(dirname "$0")" && pwd)
language=${1:-}
corpus=${CORPUS:+$(realpath "$CORPUS")}
work=${WORK:-work/low-resource${SCALE:+-$SCALE}}/$language
source "$recipe/../lib.sh"
declare -A folders=([aym]=aymara [bzd]=bribri [cni]=ashaninka [gn]=guarani [hch]=wixarika [nah]=nahuatl [oto]=hñähñu
                    [quy]=quechua [shp]=shipibo_konibo [tar]=raramuri)
[ -n "${folders[$language]:-}" ] || stop "${language:-no language}: give one of $(tr ' ' '\n' <<< "${!folders[*]}" | sort | xargs)"
mkdir -p "$work/corpora"
cd "$work"

# 1. The text. The references of the shared task's test sets are not published, so the official development set is the
#    test set, and a development set is drawn from the training text.
for set in train dev; do
    for side in es "$language"; do
        path=github.com/AmericasNLP/americasnlp2021/raw/HEAD/data/${folders[$language]}-spanish/$set.$side
        if [ -n "$corpus" ]; then
            gunzip < "$corpus/$language.$set.$side.gz" > "corpora/$set.$side"
        else
            fetch "https://$path"
            cp "download/$path" "corpora/$set.$side"
        fi
    done
    check_lines "corpora/$set.es" "corpora/$set.$language"
done
for side in es "$language"; do
    collect "train.$side" 2000 "corpora/train.$side"
    collect "test.$side" 20 "corpora/dev.$side"
done
dev=500
if [ "${SCALE:-full}" = tiny ]; then dev=20; fi

# 2. Three commands make the translator.
if [ ! -e data/manifest.json ]; then
    nmtkit prep -s es -t "$language" --train train.{es,"$language"} --dev-size $dev --test test.{es,"$language"}
fi
if [ ! -e data/ids.json ]; then nmtkit vocab; fi
nmtkit train "${tiny_training[@]}"

# 3. Its scores beside the baseline's: BLEU and chrF of plain text, as the shared task has them.
if [ ! -e averaged ]; then nmtkit average --output averaged; fi
nmtkit translate --model averaged < test.es > "test.hyp.$language"
sacrebleu "test.$language" -i "test.hyp.$language" -m bleu chrf --format text
