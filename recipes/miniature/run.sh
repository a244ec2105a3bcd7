#!/usr/bin/env bash
# The papers' claims in miniature: downloads the corpora of plan.yaml; then run.py runs all rows that are not in the
# ledger.
#
#   recipes/miniature/run.sh                           # all groups, one training at a time
#   recipes/miniature/run.sh --groups zhou --jobs 2    # arguments are passed to run.py; see its --help
#   MULTI30K=folder TATOEBA=folder recipes/miniature/run.sh     # use the files named in lib.sh instead of downloading
#
#   SCALE=tiny recipes/miniature/run.sh --groups baselines --ledger tiny.jsonl      # on slices of the text
#
# Everything is written below WORK (default: work/miniature), except the ledger, which is beside this script. Then run
# page.py to update the pages.
set -euo pipefail
recipe=$(cd "$(dirname "$0")" && pwd)
multi30k=${MULTI30K:+$(realpath "$MULTI30K")}
tatoeba=${TATOEBA:+$(realpath "$TATOEBA")}
work=${WORK:-work/miniature${SCALE:+-$SCALE}}
mkdir -p "$work"
work=$(realpath "$work")
source "$recipe/../lib.sh"

# prepare CORPUS FOLDER TEST: puts the text of a corpus of lib.sh into WORK/CORPUS/raw, under the names in run.py.
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
ln -sfn ../tatoeba/raw "$work/tatoeba-bpe/raw"  # the same text with another segmentation

python3 "$recipe/run.py" --work "$work" "$@"
