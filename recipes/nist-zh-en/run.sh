#!/usr/bin/env bash
# NIST Chinese-English: from your copy of the LDC's text to scored translations, for one preset and any number of seeds.
#
#   LDC=folder recipes/nist-zh-en/run.sh dtmt4              # BPE, 30K merges per side; development set MT06
#   LDC=folder recipes/nist-zh-en/run.sh deep-lau           # words, 30K per side; development set MT02
#   SCALE=tiny LDC=folder recipes/nist-zh-en/run.sh deep-gru-2x1        # on a slice of the data, in minutes
#
# LDC has train.zh and train.en (1.25M pairs; README.md lists the catalogue numbers) and for each of mt02 mt03 mt04 mt05
# mt06 mt08 a source and four references: mt02.zh, mt02.en0, ..., mt02.en3. One sentence per line, words separated by
# spaces: Chinese segmented, English tokenised. Everything is lower-cased.
#
# Everything is written below WORK (default: work/nist-zh-en). Existing files are kept; the same command resumes.
set -euo pipefail
recipe=$(cd "$(dirname "$0")" && pwd)
model=${1:-dtmt4}
seeds=(${SEEDS:-1})
ldc=$(realpath "${LDC:?is not set: the folder of your LDC text, see the head of this script}")
work=${WORK:-work/nist-zh-en${SCALE:+-$SCALE}}
mkdir -p "$work"
cd "$work"
source "$recipe/../lib.sh"

# 1. The data of each paper. Wang et al. 2017: the 30K most frequent words of each language, development set MT02.
#    Meng and Zhang 2019: separate BPE with 30K merges for each language, development set MT06.
case $model in
    *-ende* | *-enfr | dtmt4-plain) stop "$model is a preset of recipes/wmt14-en-de or recipes/wmt14-en-fr" ;;
    deep-lau* | deep-gru*)
        data=data-words segmentation=(--words) vocab=(--src-size 30000 --tgt-size 30000) dev=mt02
        tests=(mt03 mt04 mt05 mt06) also=()
        ;;
    dtmt* | shallow-rnmt* | transformer-big-zhen)
        data=data-bpe segmentation=(--bpe 30000 --separate) vocab=() dev=mt06
        tests=(mt02 mt03 mt04 mt05 mt08) also=(mt06)  # a column of Table 1, beside the mean
        ;;
    *) stop "$model is none of this recipe's presets; recipes/README.md lists them" ;;
esac

# 2. Checks that both sides correspond. All sets keep their four references.
if [ ! -e raw/mt08.en3 ]; then
    check_lines "$ldc"/train.{zh,en}
    for set in mt02 mt03 mt04 mt05 mt06 mt08; do
        for reference in en0 en1 en2 en3; do check_lines "$ldc/$set.zh" "$ldc/$set.$reference"; done
    done
    for side in zh en; do collect raw/train.$side 2000 "$ldc/train.$side"; done
    for set in mt02 mt03 mt04 mt05 mt06 mt08; do
        for side in zh en0 en1 en2 en3; do collect raw/$set.$side 20 "$ldc/$set.$side"; done
    done
fi

# 3. A data folder of all pairs; the length limits of the papers, 80 words and 128 subwords, are in their presets.
if [ ! -e $data/manifest.json ]; then
    nmtkit prep -s zh -t en --train raw/train.{zh,en} \
        --dev raw/$dev.{zh,en0} --dev-reference raw/$dev.en1 --dev-reference raw/$dev.en2 --dev-reference raw/$dev.en3 \
        --tokenizer none --max-length 0 --max-ratio 0 --lowercase "${segmentation[@]}" --output $data
fi

# 4. Word alignment and lexicon, for replacing unknown words; a slice has no word pair with 100 links.
#    LINKS=file uses the links of another aligner instead of eflomal's (see nmtkit align --help).
if [ $data = data-words ] && [ ! -e $data/train.align ]; then
    threshold=100
    if [ "${SCALE:-full}" = tiny ]; then threshold=3; fi
    nmtkit align --data $data --threshold $threshold ${LINKS:+--pharaoh "$LINKS"}
fi

# 5. Vocabularies, and the text encoded as ids.
if [ ! -e $data/ids.json ]; then
    nmtkit vocab --data $data "${vocab[@]}"
fi

# 6. Train with the settings of the preset; finished runs are skipped, others are resumed.
train_seeds

# 7. With several seeds, an ensemble of them, which averages their probabilities.
system=${systems[0]}
if [ ${#seeds[@]} -gt 1 ]; then
    system=ensemble-$model
    [ -e "$system" ] || nmtkit ensemble "${systems[@]}" --output "$system"
fi

# 8. Translate, and score case-insensitively against four references: multi-bleu -lc for Meng and Zhang, and NIST's
#    script (mteval, brevity penalty by the shortest reference) for Wang et al. The last column of their tables is the
#    mean over test sets. Word-based systems are also scored with unknown words replaced (+PosUnk).
score=(nmtkit score --tokenized --subset-metric multi-bleu-lc)
if [ $data = data-words ]; then score=(nmtkit score --language en --subset-metric mteval-lc); fi
kinds=("")
if [ $data = data-words ]; then kinds+=(.posunk); fi
for kind in "${kinds[@]}"; do
    for set in "${tests[@]}" "${also[@]}"; do
        nmtkit translate --model "$system" ${kind:+--replace-unk --unk-origin papers} < raw/$set.zh > "$set.$system$kind.en"
        echo "$set${kind:+ +PosUnk}"
        "${score[@]}" "$set.$system$kind.en" -r raw/$set.en0 -r raw/$set.en1 -r raw/$set.en2 -r raw/$set.en3
    done
done

# 9. All test sets together by source length (figure 3 of Meng and Zhang, figure 2 of Wang et al.): the last table, of
#    sentences longer than a number of words.
merged=("${tests[@]/#/raw/}")
for side in zh en0 en1 en2 en3; do cat "${merged[@]/%/.$side}" > "merged.$side"; done
cat "${tests[@]/%/.$system.en}" > "merged.$system.en"
"${score[@]}" "merged.$system.en" -r merged.en0 -r merged.en1 -r merged.en2 -r merged.en3 --source merged.zh
