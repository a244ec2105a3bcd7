#!/usr/bin/env bash
# The quickstart: from raw text to scored translations in a few minutes.
#
#   make demo                               # installs, then runs this
#   recipes/quickstart/run.sh               # with nmtkit installed; WORK=folder puts everything there
#
# A second run goes on where the first one stopped; delete the folder to start over.
set -euo pipefail
recipe=$(cd "$(dirname "$0")" && pwd)
work=${WORK:-work/quickstart}
mkdir -p "$work" && cd "$work"

# 1. Raw parallel text. These English-French pairs are made by a small grammar; yours go into raw/ as
#    train.en, train.fr, dev.en, ... and everything below stays the same.
python "$recipe/corpus.py" raw

# 2. Tokenise, clean, learn subwords, and number the words: raw/ -> data/
nmtkit prep --src-lang en --tgt-lang fr --bpe 1000
nmtkit vocab

# 3. Train a small RNNsearch: data/ -> run/. Ctrl-C stops it, the same command goes on.
nmtkit train --model rnnsearch --config "$recipe/model.yaml"

# 4. Average the best checkpoints, which is a little better than the best one.
nmtkit average

# 5. Translate raw text, one line in, one line out.
nmtkit translate --model averaged < raw/test.en > test.fr

# 6. Score it, and look at some.
nmtkit score test.fr raw/test.fr --language fr
echo
for line in 3 60 120 180 240; do
    printf 'source       %s\nreference    %s\ntranslation  %s\n\n' \
        "$(sed -n ${line}p raw/test.en)" "$(sed -n ${line}p raw/test.fr)" "$(sed -n ${line}p test.fr)"
done
