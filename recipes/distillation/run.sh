#!/usr/bin/env bash
# Distillation (Kim and Rush 2016) on Multi30k: small models learn from the output of an ensemble of three.
#
#   recipes/distillation/run.sh
#   CORPUS=folder recipes/distillation/run.sh                    # with {train,valid,test2016}.{en,de}.gz
#   TEACHERS="run-a run-b run-c" recipes/distillation/run.sh     # trained models with the same target vocabulary
#   SCALE=tiny recipes/distillation/run.sh                       # on a slice of the data, in a few minutes
#
# Everything is written below WORK (default: work/distillation). The same command resumes a stopped one, even within a
# training run or a translation by the ensemble. EPOCHS (default 9) is the number of epochs of every training run.
# Shortlists need a word alignment by eflomal.
set -euo pipefail
recipe=$(cd "$(dirname "$0")" && pwd)
corpus=${CORPUS:+$(realpath "$CORPUS")}
teachers=()
for folder in ${TEACHERS:-}; do teachers+=("$(realpath "$folder")"); done
work=${WORK:-work/distillation${SCALE:+-$SCALE}}
mkdir -p "$work"
cd "$work"
source "$recipe/../lib.sh"
students=(shallow-rnmt deep-lau-2x2)

# 1. The corpus, prepared as in ../multi30k, and aligned for the shortlists.
multi30k "$corpus"
if [ ! -e data/manifest.json ]; then
    nmtkit prep --src-lang en --tgt-lang de --tokenizer moses --bpe 8000 \
        --train raw/train.{en,de} --dev raw/valid.{en,de} --test raw/test2016.{en,de}
fi
if [ ! -e data/lexicon.tsv ]; then nmtkit align --threshold 3; fi
if [ ! -e data/ids.json ]; then nmtkit vocab; fi

# train MODEL DATA RUN: trains the small version of a model; the average of its checkpoints is averaged-RUN.
train() {
    nmtkit train --model "$1-small" --data "$2" --output "run-$3" --max-epochs "${EPOCHS:-9}" \
        --set training.patience=null "${tiny_training[@]}"
    if [ ! -e "averaged-$3" ]; then nmtkit average --model "run-$3" --output "averaged-$3"; fi
}

# 2. The teacher: an ensemble of three models.
if [ ${#teachers[@]} = 0 ]; then
    for model in bideep dtmt1 densenmt-4l-2; do
        train "$model" data "$model"
        teachers+=("averaged-$model")
    done
fi
if [ ! -e teacher ]; then nmtkit ensemble "${teachers[@]}" --output teacher; fi

# 3. The teacher's translations of the training sources, a thousand sentences at a time. A teacher trained for three
#    updates never ends a sentence, so SCALE=tiny translates only a few, greedily.
pairs=$(wc -l < raw/train.en) lines=1000 beam=5
if [ "${SCALE:-full}" = tiny ]; then pairs=100 lines=50 beam=1; fi
mkdir -p parts
head -n "$pairs" raw/train.en > teacher.en
split --lines $lines --numeric-suffixes --suffix-length 4 teacher.en parts/en.
for part in parts/en.*; do
    translation=parts/de.${part##*.}
    if [ ! -e "$translation" ]; then
        nmtkit translate --model teacher --beam-size $beam --input "$part" --output "$translation.part"
        mv "$translation.part" "$translation"
    fi
done
cat parts/de.???? > teacher.de
check_lines teacher.en teacher.de

# 4. The distilled text, with the tokens and vocabularies of the original: students differ only in their training text.
if [ ! -e data-teacher/manifest.json ]; then
    nmtkit prep --like data --output data-teacher \
        --train teacher.{en,de} --dev raw/valid.{en,de} --test raw/test2016.{en,de}
fi
if [ ! -e data-teacher/ids.json ]; then
    nmtkit vocab --data data-teacher --src-from data/vocab.src --tgt-from data/vocab.tgt
fi

# 5. The students, trained on the original text and on the teacher's.
for student in "${students[@]}"; do
    train "$student" data "$student-alone"
    train "$student" data-teacher "$student-taught"
done

# seconds COMMAND...: the wall time of a command.
seconds() {
    local begin
    begin=$(date +%s.%N)
    "$@"
    echo "$begin $(date +%s.%N)" | awk '{ printf "%.2f", $2 - $1 }'
}

# translate NAME MODEL [OPTION...]: translates the test set into NAME.de with one process; NAME.seconds has the time for
# the first line, which includes the start, and for all lines.
translate() {
    local name=$1 command=(nmtkit translate --jobs 1 --model "$2" "${@:3}") first all
    if [ -e "$name.seconds" ]; then return; fi
    first=$(seconds "${command[@]}" --input test/first.en --output /dev/null)
    all=$(seconds "${command[@]}" --input raw/test2016.en --output "$name.de")
    echo "$first $all" > "$name.seconds"
}

# 6. The test set, translated by all models: with beam search, greedily, in int8, and with a shortlist.
mkdir -p test
head -n 1 raw/test2016.en > test/first.en
small=(--precision int8 --shortlist 500 --lexicon data/lexicon.tsv)
translate test/teacher teacher
for student in "${students[@]}"; do
    for kind in alone taught; do
        model=averaged-$student-$kind
        translate "test/$student.$kind" "$model"
        translate "test/$student.$kind.greedy" "$model" --beam-size 1
    done
    translate "test/$student.taught.int8" "$model" --precision int8
    translate "test/$student.taught.int8.shortlist" "$model" "${small[@]}"
    translate "test/$student.taught.int8.shortlist.greedy" "$model" "${small[@]}" --beam-size 1
done

# 7. BLEU, and sentences per second without startup.
systems=(test/*.seconds)
nmtkit score "${systems[@]/%.seconds/.de}" raw/test2016.de --language de
for system in "${systems[@]}"; do
    name=${system#test/}
    awk -v name="${name%.seconds}" -v lines="$(wc -l < raw/test2016.en)" \
        '{ t = $2 - $1; printf "%-44s %8.2f s %8.1f sentences/s\n", name, $2, (lines - 1) / (t > 0.01 ? t : 0.01) }' "$system"
done
