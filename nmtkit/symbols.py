"""The symbols that open vocabularies, with ids and spellings that never change."""

PAD, BOS, EOS, UNK = range(4)
SPELLINGS = ("<pad>", "<s>", "</s>", "<unk>")

# These follow in the target vocabulary of an annotated corpus (Luong et al. 2015): unkpos_d is an unknown word at
# position j that is aligned to the source word at position i = j - d, null one without a link or with a longer one.
FARTHEST = 7
UNKPOS = (*(f"<unkpos_{d}>" for d in range(-FARTHEST, FARTHEST + 1)), "<unkpos_null>")
