#!/usr/bin/env bash
# The papers' claims in miniature: downloads the corpora of plan.yaml, then run.py does every row that is not in the ledger.
#
#   recipes/miniature/run.sh                           # all groups, one training at a time
#   recipes/miniature/run.sh --groups zhou --jobs 2    # what follows is for run.py; --help explains it
#   MULTI30K=folder TATOEBA=folder recipes/miniature/run.sh     # with the files that lib.sh names, instead of downloading
#
#   SCALE=tiny recipes/miniature/run.sh --groups baselines --ledger tiny.jsonl      # on slices of the text
#
# Everything is written below WORK (default: work/miniature), the ledger beside this script. Then page.py makes the page.
set -euo pipefail
recipe=$(cd "$(dirname "$0")" && pwd)
multi30k=${MULTI30K:+$(realpath "$MULTI30K")}
tatoeba=${TATOEBA:+$(realpath "$TATOEBA")}
work=${WORK:-work/miniature${SCALE:+-$SCALE}}
mkdir -p "$work"
work=$(realpath "$work")
source "$recipe/../lib.sh"

# prepare CORPUS FOLDER TEST: the text of one of lib.sh's corpora in WORK/CORPUS/raw, under the names that run.py asks for.
prepare() {
    mkdir -p "$work/$1"
    (
        cd "$work/$1"
        "$1" "$2"
        for language in en de; do
            ln -sf "valid.$language" "raw/dev.$language"
            if [ "$3" != test ]; then ln -sf "$3.$language" "raw/test.$language"; fi
        done
    )
}
prepare multi30k "$multi30k" test2016
prepare tatoeba "$tatoeba" test
mkdir -p "$work/tatoeba-bpe"
ln -sfn ../tatoeba/raw "$work/tatoeba-bpe/raw"  # the same text, segmented otherwise

python3 "$recipe/run.py" --work "$work" "$@"
