#!/usr/bin/env bash
# Spanish to languages of AmericasNLP 2021: from raw text to a model and its scores. One language with all defaults, or
# several in one model, with the language's name before each Spanish sentence and short pairs joined by two or three.
#
#   recipes/low-resource/run.sh aym                     # or bzd, cni, gn, hch, nah, oto, quy, shp, tar
#   recipes/low-resource/run.sh aym bzd cni shp tar     # one model for all of them
#   CORPUS=folder recipes/low-resource/run.sh aym       # with LANGUAGE.{train,dev}.{es,LANGUAGE}.gz
#   MONO=file recipes/low-resource/run.sh aym           # also from Aymara to Spanish, with Spanish lines to translate
#   SCALE=tiny recipes/low-resource/run.sh aym          # on a slice of the data, in a minute
#
# Everything is written below WORK (default: work/low-resource). Existing files are not made again. JOINED (default:
# 0.4) is the ratio of joined pairs to other pairs of each language.
set -euo pipefail
recipe=$(cd "$(dirname "$0")" && pwd)
languages=("$@")
corpus=${CORPUS:+$(realpath "$CORPUS")}
mono=${MONO:+$(realpath "$MONO")}
work=${WORK:-work/low-resource${SCALE:+-$SCALE}}
source "$recipe/../lib.sh"
declare -A folders=([aym]=aymara [bzd]=bribri [cni]=ashaninka [gn]=guarani [hch]=wixarika [nah]=nahuatl [oto]=hñähñu
                    [quy]=quechua [shp]=shipibo_konibo [tar]=raramuri)
for language in "${languages[@]:-}"; do
    [ -n "$language" ] && [ -n "${folders[$language]:-}" ] ||
        stop "${language:-no language}: give one of $(tr ' ' '\n' <<< "${!folders[*]}" | sort | xargs), or several"
done
mkdir -p "$work"
cd "$work"

# 1. The text. The references of the shared task's test sets are not published, so the official development set is the
#    test set, and a development set is sampled from the training text.
for language in "${languages[@]}"; do
    mkdir -p "$language/corpora"
    for set in train dev; do
        for side in es "$language"; do
            path=github.com/AmericasNLP/americasnlp2021/raw/HEAD/data/${folders[$language]}-spanish/$set.$side
            if [ -n "$corpus" ]; then
                gunzip < "$corpus/$language.$set.$side.gz" > "$language/corpora/$set.$side"
            else
                fetch "https://$path"
                cp "download/$path" "$language/corpora/$set.$side"
            fi
        done
        check_lines "$language/corpora/$set.es" "$language/corpora/$set.$language"
    done
    for side in es "$language"; do
        train=$language/corpora/train.$side
        case $language in
            nah | oto | tar)  # whose training text is tokenised, unlike the development set
                sacremoses -q -l "$side" detokenize < "$train" > "$train.plain"
                train=$train.plain ;;
        esac
        collect "$language/train.$side" 2000 "$train"
        collect "$language/test.$side" 20 "$language/corpora/dev.$side"
    done
done

average() {  # average [RUN [AVERAGED]]
    if [ ! -e "${2:-averaged}" ]; then nmtkit average --model "${1:-run}" --output "${2:-averaged}"; fi
}

# 2a. One language: three commands make the model. Scores are BLEU and chrF of plain text, as in the shared task.
if [ ${#languages[@]} = 1 ]; then
    cd "$language"
    dev=500
    if [ "${SCALE:-full}" = tiny ]; then dev=20; fi
    if [ ! -e data/manifest.json ]; then
        nmtkit prep -s es -t "$language" --train train.{es,"$language"} --dev-size $dev --test test.{es,"$language"}
    fi
    if [ ! -e data/ids.json ]; then nmtkit vocab; fi
    nmtkit train "${tiny_training[@]}"
    average
    nmtkit translate --model averaged < test.es > "test.hyp.$language"
    sacrebleu "test.$language" -i "test.hyp.$language" -m bleu chrf --format text
    echo "with minimum Bayes risk decoding:"
    nmtkit translate --model averaged --beam-size 12 --mbr 12 < test.es > "test.mbr.$language"
    sacrebleu "test.$language" -i "test.mbr.$language" -m bleu chrf --format text
    if [ -z "$mono" ]; then exit; fi
    # Into Spanish, with tagged back-translation: the model translates Spanish text, and its translations, each with the
    # tag BT, are source text in training.
    if [ ! -e "mono.$language" ]; then
        nmtkit translate --model averaged < "$mono" > mono.part
        mv mono.part "mono.$language"
    fi
    cat train.es "$mono" > back.es
    { cat "train.$language"; sed 's/^/BT /' "mono.$language"; } > "back.$language"
    if [ ! -e data-back/manifest.json ]; then
        nmtkit prep -s "$language" -t es --train "back.$language" back.es --dev data/dev.raw.{tgt,src} \
            --test "test.$language" test.es --drop overlap --output data-back
    fi
    if [ ! -e data-back/ids.json ]; then nmtkit vocab --data data-back; fi
    nmtkit train --data data-back --output run-back "${tiny_training[@]}"
    average run-back averaged-back
    nmtkit translate --model averaged-back < "test.$language" > test.hyp.es
    sacrebleu test.es -i test.hyp.es -m bleu chrf --format text
    exit
fi

# 2b. Several languages: more text, so less dropout, larger batches, and a lower learning rate at the end. The model is
#     also fine-tuned on each language, with more dropout, and both translate as an ensemble, with minimum Bayes risk
#     decoding.
all=$(tr ' ' - <<< "${languages[*]}")
mkdir -p "$all"
if [ ! -e "$all/dev.all" ]; then python3 "$recipe/together.py" "$all" "${JOINED:-0.4}" "${languages[@]}"; fi
cd "$all"
if [ ! -e data/manifest.json ]; then nmtkit prep -s es -t all --bpe 4000 --train train.{es,all} --dev dev.{es,all}; fi
if [ ! -e data/ids.json ]; then nmtkit vocab; fi
nmtkit train --set model.dropout=0.35 --set training.word_dropout=0.1 --set training.batch_sentences=80 \
    --set training.concatenations=0 --max-epochs 21 "${tiny_training[@]}"
average
nmtkit train --from averaged --output slower --set training.optimizer.lr=4e-4 --max-epochs 4 "${tiny_training[@]}"
average slower together
for language in "${languages[@]}"; do
    data=data-$language
    if [ ! -e "$data/manifest.json" ]; then
        nmtkit prep --like data --output "$data" --train "$language".train.{es,all} --dev "$language".dev.{es,all}
    fi
    if [ ! -e "$data/ids.json" ]; then nmtkit vocab --data "$data" --src-from data/vocab.src --tgt-from data/vocab.tgt; fi
    nmtkit train --from together --data "$data" --output "run-$language" --set training.optimizer.lr=5e-4 \
        --set training.batch_sentences=32 --set model.dropout=0.5 --set training.word_dropout=0.2 \
        --set training.patience=5 --max-epochs 30 "${tiny_training[@]}"
    average "run-$language" "averaged-$language"
    sed "s/^/$language /" "../$language/test.es" |
        nmtkit translate --model together --model "averaged-$language" --beam-size 12 --mbr 12 > "test.hyp.$language"
    echo "$language"
    sacrebleu "../$language/test.$language" -i "test.hyp.$language" -m bleu chrf --format text
done
