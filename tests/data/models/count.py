"""Counts the parameters of every config in DIR/configs and writes DIR/param_counts.csv.

    python count.py DIR

Needs torch and transformers. Models are built on the meta device, so size does not matter. The
language models inside multimodal configs are counted without their vision towers.
"""

import csv
import json
import sys
from pathlib import Path

import torch
import transformers
from torch import nn
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

HEADS = {
    "bert": transformers.BertForMaskedLM,
    "roberta": transformers.RobertaForMaskedLM,
    "t5": transformers.T5ForConditionalGeneration,
    "vit": transformers.ViTForImageClassification,
}
TEXT = {"gemma3": "gemma3_text", "llama4": "llama4_text"}
STACKS = ("layers", "layer", "h", "block", "blocks")
EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")


def build(config):
    kind = config["model_type"]
    if kind in TEXT:
        tied = config.get("tie_word_embeddings", kind == "gemma3")
        config = {**config["text_config"], "model_type": TEXT[kind], "tie_word_embeddings": tied}
        kind = TEXT[kind]
    made = CONFIG_MAPPING[kind].from_dict(config)
    with torch.device("meta"):
        model = HEADS[kind](made) if kind in HEADS else AutoModelForCausalLM.from_config(made)
    model.tie_weights()
    return made, model


def stacks(model):
    """Lists of layers, a decoder's before an encoder's."""
    found = []
    for name, module in model.named_modules():
        if isinstance(module, nn.ModuleList) and name.split(".")[-1] in STACKS:
            if not any(name.startswith(f"{outer}.") for outer, _ in found):
                found.append((name, module))
    return [layer for _, layers in sorted(found) for layer in layers]


def count(name, config):
    made, model = build(config)
    size = lambda module: sum(p.numel() for p in module.parameters())
    parameters = dict(model.named_parameters())
    total = sum(p.numel() for p in parameters.values())
    embedding, head = model.get_input_embeddings(), model.get_output_embeddings()
    tied = head is not None and head.weight is getattr(embedding, "weight", None)
    layers = [size(layer) for layer in stacks(model)]
    own_head = 0 if tied or head is None else size(head)
    routed = sum(p.numel() for key, p in parameters.items() if ".experts." in key)
    experts = next((getattr(made, k) for k in EXPERTS if getattr(made, k, None)), None) if routed else None
    chosen = made.num_experts_per_tok if routed else None
    active = total - routed + (routed // experts * chosen if routed else 0)
    return {
        "model": name,
        "family": config["model_type"],
        "arch": type(model).__name__,
        "total": total,
        "known_total": None,
        "match": None,
        "embedding": size(embedding),
        "lm_head": 0 if head is None else size(head),
        "tied": tied,
        "n_blocks": len(layers),
        "layer_first": layers[0],
        "layer_last": layers[-1],
        "layer_sum": sum(layers),
        "other": total - size(embedding) - own_head - sum(layers),
        "routed_experts_total": routed,
        "n_experts": experts,
        "top_k": chosen,
        "active": active,
        "active_excl_embedding": active - size(embedding),
        "buffers": sum(b.numel() for b in model.buffers()),
        "n_param_tensors": len(parameters),
        "note": f"counted with transformers {transformers.__version__}",
    }


def main(folder):
    files = sorted((folder / "configs").glob("*.json"))
    rows = [count(file.stem, json.loads(file.read_text())) for file in files]
    with (folder / "param_counts.csv").open("w", newline="") as out:
        writer = csv.DictWriter(out, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
