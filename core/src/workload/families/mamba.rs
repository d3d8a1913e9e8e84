//! Mamba: no attention, a selective state-space mixer in each layer.

use super::super::block::{BlockBuilder, BlockKind, INPUT, NormKind, Scan, Split, Stream};
use super::super::config::Config;
use super::super::model::Model;
use super::Around;
use crate::error::Result;

/// `mamba`.
pub(super) fn mamba(c: &Config<'_>) -> Result<Model> {
    let hidden = c.width(&["hidden_size"], 768)?;
    let inner = c.count(&["expand"], 2)? * hidden;
    let rank = match c.text_or_none("time_step_rank") {
        Some("auto") => hidden.div_ceil(16),
        _ => c.width(&["time_step_rank"], hidden.div_ceil(16))?,
    };
    let scan = Scan {
        inner,
        state: c.count(&["state_size"], 16)?,
        taps: c.count(&["conv_kernel"], 4)?,
        rank,
        conv_bias: c.flag(&["use_conv_bias"], true)?,
        heads: 0,
        groups: 0,
    };
    let bias = c.flag(&["use_bias"], false)?;
    let mut b = BlockBuilder::new(BlockKind::Layer, Stream::Main, hidden);
    let residual = if c.flag(&["residual_in_fp32"], true)? { b.upcast(INPUT) } else { INPUT };
    let normed = b.norm(INPUT, NormKind::Rms);
    let projected = b.linear(normed, "in_proj", 2 * inner, bias, Split::Column);
    let x = b.view(projected, inner);
    let gate = b.view(projected, inner);
    let mixed = b.scan(x, gate, scan);
    let out = b.linear(mixed, "out_proj", hidden, bias, Split::Row);
    b.add(residual, out);
    let layer = b.finish();

    let layers = c.layers(&["num_hidden_layers"], 32)?;
    let around = Around::read(c, hidden, NormKind::Rms, 50_280, true)?;
    Ok(Around { max_positions: None, ..around }.model(|stack| stack.push(layer, layers)))
}
