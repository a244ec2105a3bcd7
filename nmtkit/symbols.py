"""The special symbols at the start of every vocabulary; ids and spellings never change."""

PAD, BOS, EOS, UNK = range(4)
SPELLINGS = ("<pad>", "<s>", "</s>", "<unk>")

# PosUnk (Luong et al. 2015): with an annotated corpus, these come next in the target vocabulary. unkpos_d is an unknown
# word at position j aligned to the source word at i = j - d; null: no link, or one with |d| > 7.
FARTHEST = 7
UNKPOS = (*(f"<unkpos_{d}>" for d in range(-FARTHEST, FARTHEST + 1)), "<unkpos_null>")
