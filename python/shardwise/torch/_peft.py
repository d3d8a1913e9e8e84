"""Reads PEFT's wrapping: which adapters sit on which layers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

_FORMATS = {"torch.float32": "fp32", "torch.bfloat16": "bf16", "torch.float16": "fp16"}


def adapters(model: nn.Module) -> tuple[nn.Module, dict[str, Any]]:
    """The model under PEFT's wrapper, and the recipe that the adapters amount to."""
    wrapper: Any = model
    configs = getattr(wrapper, "peft_config", None)
    if not configs or not hasattr(wrapper, "get_base_model"):
        return model, {}
    lora = next(iter(configs.values()))
    base: nn.Module = wrapper.get_base_model()
    first = next((p for n, p in model.named_parameters() if ".lora_A." in n), None)
    layers = sorted(
        {
            n.split(".lora_A")[0].rsplit(".", 1)[-1]
            for n, _ in model.named_modules()
            if ".lora_A" in n
        }
    )
    settings: dict[str, Any] = {
        "kind": "dora" if getattr(lora, "use_dora", False) else "lora",
        "rank": lora.r,
        "targets": layers,
        "dropout": lora.lora_dropout > 0,
        "modules_to_save": list(lora.modules_to_save or []),
    }
    if first is not None:
        settings["dtype"] = _FORMATS.get(str(first.dtype), "fp32")
    quantised = bool(
        getattr(base, "is_loaded_in_4bit", False) or getattr(base, "is_loaded_in_8bit", False)
    )
    recipe: dict[str, Any] = {"method": "qlora" if quantised else "lora", "lora": settings}
    if getattr(base, "is_loaded_in_8bit", False):
        recipe["base_quantization"] = "int8"
    return base, recipe
