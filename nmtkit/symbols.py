"""The four symbols that open every vocabulary, with ids and spellings that never change."""

PAD, BOS, EOS, UNK = range(4)
SPELLINGS = ("<pad>", "<s>", "</s>", "<unk>")
