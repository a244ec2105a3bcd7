#!/usr/bin/env bash
# Speed and memory of nmtkit, JoeyNMT 2.3, OpenNMT-py 3.5 and CTranslate2 4 on the same data, with the same sizes.
#
#   recipes/benchmarks/peers.sh                       # equal work: almost random models, translations of 15 words
#   recipes/benchmarks/peers.sh learnt                # models trained once, for three epochs: wall time of commands
#   THREADS=4 ROUNDS=3 CORPUS=/path/to/multi30k RUN="taskset -c 0-3" recipes/benchmarks/peers.sh
#
# Multi30k English-German, joint BPE with 10,000 merges, embedding 256, one-layer bidirectional GRU encoder, GRU decoder
# of 512, Bahdanau's attention, batches of 80 sentences, beam 5; and Transformers of base size: see the files in peers/.
# The same command resumes a stopped one; remove figures.jsonl to measure again.
#
#   THREADS   of each process [1]. nmtkit, as by default, translates with this many processes of one thread each
#   ROUNDS    the number of measurements of each [2]
#   RUN       a prefix for every measurement, such as taskset or a lock
#   DEVICE    cpu or cuda [cpu]; there CTranslate2 4 needs the cuBLAS of CUDA 12
#   BATCH     sentences a batch [80]
#   CORPUS    a folder with train.en.gz, valid.*, test2016.*; without it they are downloaded
#   WORK      the folder for everything [peers]; SENTENCES of test2016 are translated [1000]
#   LINES     the texts for whole commands ["1000 10000"]: test2016, then the beginning of the training text
#   TORCH     the version of PyTorch for all toolkits [2.13.0]. On Linux, PyPI's includes gigabytes of CUDA;
#             PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu installs the small one
#
# `python` must be one with nmtkit: PATH="$PWD/.venv/bin:$PATH" recipes/benchmarks/peers.sh
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
export OMP_NUM_THREADS=${THREADS:-1}
work=${WORK:-peers}
mkdir -p "$work/download" "$work/raw"
corpus=$(realpath "${CORPUS:-$work/download}")
cd "$work"

# 1. The corpus: the task 1 data of https://github.com/multi30k/dataset, raw text.
for part in train.en train.de val.en val.de test_2016_flickr.en test_2016_flickr.de; do
    name=${part/val./valid.}
    file="$corpus/${name/test_2016_flickr/test2016}.gz"
    if [ ! -e "$file" ]; then
        curl --fail --location --output "$file.part" \
            "https://github.com/multi30k/dataset/raw/master/data/task1/raw/$part.gz"
        mv "$file.part" "$file"
    fi
done

# 2. The same tokens for all. A development set of only 20 sentences, because validation is not measured.
if [ ! -e words.tgt ]; then
    for language in en de; do
        zcat "$corpus/valid.$language.gz" | sed -n 1,20p > "raw/dev.$language"
        zcat "$corpus/test2016.$language.gz" | sed -n "1,${SENTENCES:-1000}p" > "raw/test.$language"
    done
    zcat "$corpus/train.en.gz" > raw/train.en
    python -m nmtkit prep --src-lang en --tgt-lang de --tokenizer moses --bpe 10000 \
        --train "$corpus"/train.{en,de}.gz --dev raw/dev.{en,de} --test raw/test.{en,de}
    python -m nmtkit vocab
    for side in src tgt; do tail -n +5 "data/vocab.$side" | cut -f 1 > "words.$side"; done # each adds its own symbols
fi

# 3. The toolkits, each in a virtual environment. OpenNMT-py 3.5.1 requires torch<2.3, but works with this version.
echo "torch==${TORCH:-2.13.0}" > constraints.txt
echo "setuptools<81" >> constraints.txt # JoeyNMT's TensorBoard writer imports pkg_resources
install() { # FOLDER, then arguments of pip
    [ -x "$1/bin/python" ] || python -m venv "$1"
    "$1/bin/python" -m pip install --quiet --disable-pip-version-check -c constraints.txt "${@:2}"
}
install joeynmt joeynmt==2.3.0 importlib_metadata # imported, but not a dependency
install opennmt torch configargparse 'ctranslate2<5' tensorboard flask waitress 'pyonmttok<2' pyyaml sacrebleu rapidfuzz \
    pyahocorasick fasttext-wheel spacy six
install opennmt --no-deps OpenNMT-py==3.5.1
export TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1 # its own checkpoints are pickles
[ "${DEVICE:-cpu}" = cuda ] || export CUDA_VISIBLE_DEVICES=

# 4. Interleaved, so that a temporarily busy machine slows all of them.
peers() { ${RUN:-} python "$here/peers.py" "$@"; }
python "$here/peers.py" systems > systems
if [ "${1:-}" = learnt ]; then
    for toolkit in nmtkit opennmt joeynmt; do peers learn "$toolkit"; done
    grep -v Transformer systems > chosen # one epoch is too little for these
else
    cp systems chosen
    for toolkit in nmtkit-transformer opennmt-transformer; do peers train "$toolkit" 1; done
fi
for ((round = 1; round <= ${ROUNDS:-2}; round++)); do
    if [ "${1:-}" = learnt ]; then
        for lines in ${LINES:-1000 10000}; do
            while read -r system; do peers command "$system" "$lines" "$round" < /dev/null; done < chosen
        done
    else
        for toolkit in nmtkit joeynmt opennmt; do peers train "$toolkit" "$round"; done
        while read -r system; do peers translate "$system" "$round" < /dev/null; done < chosen
    fi
done
python "$here/peers.py" table
