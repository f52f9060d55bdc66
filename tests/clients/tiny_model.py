"""A language model of a few hundred kilobytes, made here: `python tiny_model.py FILE` writes it as GGUF.

A llama of two layers with random weights, but for a small table, in the last matrix, of what follows on what: after a
question mark it refuses, word by word, and ends; after anything else it talks at random and never ends by itself.
"""

from __future__ import annotations

import sys
from itertools import pairwise

import gguf
import numpy as np

WIDTH, LAYERS, HEADS, INNER, CONTEXT = 64, 2, 2, 128, 16384
REFUSAL = "I'm sorry, but I can't help with that."
_WORDS = """
    a about all and are at autumn be bread bright by can cloud come cool day down each early evening far few
    field fine for from garden go good green grey half here high hill house in is it juice keep lake late
    leaf light like little long look low make many more morning most near new night no not now of old on one
    open or orange other out over paper part path pear plum quiet rain red river road round sea see side
    small so some song soon spring still stone summer sun that the then there they this time to tree two
    under up very walk warm water way white wide wind winter wood year yellow yes
"""
WORDS = _WORDS.split()

SPECIAL = ["<unk>", "<s>", "</s>"]
BYTES = [f"<0x{value:02X}>" for value in range(256)]
TOKENS = [*SPECIAL, *BYTES, *(f"▁{word}" for word in (*WORDS, *REFUSAL.split()))]
KINDS = [
    gguf.TokenType.UNKNOWN,
    *[gguf.TokenType.CONTROL] * 2,
    *[gguf.TokenType.BYTE] * 256,
    *[gguf.TokenType.NORMAL] * (len(TOKENS) - 259),
]
END = TOKENS.index("</s>")
#: What follows on what, for sure: the refusal's tokens, from the question mark to the end.
FIRST = len(TOKENS) - len(REFUSAL.split())
CHAIN = [TOKENS.index("<0x3F>"), *range(FIRST, len(TOKENS)), END]


def tensors(seed: int = 7) -> dict[str, np.ndarray]:
    """The weights by their names in GGUF; rows are outputs, columns inputs."""
    random = np.random.default_rng(seed)

    def noise(rows: int, columns: int, scale: float) -> np.ndarray:
        return random.normal(0, scale, (rows, columns)).astype(np.float32)

    # The first column is the same for every token: the last layer tells by it what is said seldom.
    said = noise(len(TOKENS), WIDTH, 1)
    said[:, 0] = 4
    last = noise(len(TOKENS), WIDTH, 0.5)
    last[:, 0] = 0
    last[: len(SPECIAL) + len(BYTES), 0] = -10
    for before, after in pairwise(CHAIN):
        row = said[before].copy()
        row[0] = 0
        last[after] = 6 * row / np.linalg.norm(row)
        last[after, 0] = -5
    found = {"token_embd.weight": said, "output_norm.weight": np.ones(WIDTH, np.float32), "output.weight": last}
    for layer in range(LAYERS):
        shapes = {"attn_q": (WIDTH, WIDTH), "attn_k": (WIDTH, WIDTH), "attn_v": (WIDTH, WIDTH)}
        shapes |= {"attn_output": (WIDTH, WIDTH), "ffn_gate": (INNER, WIDTH), "ffn_up": (INNER, WIDTH)}
        shapes |= {"ffn_down": (WIDTH, INNER)}
        for name, (rows, columns) in shapes.items():
            found[f"blk.{layer}.{name}.weight"] = noise(rows, columns, 0.02)
        for name in ("attn_norm", "ffn_norm"):
            found[f"blk.{layer}.{name}.weight"] = np.ones(WIDTH, np.float32)
    return found


def write(path: str) -> None:
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(TOKENS))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(TOKENS)
    writer.add_token_scores([0.0] * len(TOKENS))
    writer.add_token_types(KINDS)
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(END)
    writer.add_chat_template("{{ messages[-1].content }}")
    for name, weights in tensors().items():
        writer.add_tensor(name, weights)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    write(sys.argv[1])
