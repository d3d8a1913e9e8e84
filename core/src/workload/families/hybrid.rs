//! Hybrids of state-space, attention and expert layers: Nemotron-H.

use super::super::block::{
    Act, Block, BlockBuilder, BlockKind, ExpertsKind, INPUT, NormKind, RouterKind, Scan, Slot, Split, Stream,
};
use super::super::config::Config;
use super::super::model::Model;
use super::{Around, Heads, act, heads};
use crate::error::{Error, ErrorCode, Result};

/// What a layer does besides its norm and residual.
#[derive(Clone, Copy, PartialEq)]
enum Mixer {
    Mamba,
    Attention,
    Mlp,
    Experts,
}

/// The layers: as the config lists them, or one letter each (`M`, `*`, `-`, `E`).
fn mixers(c: &Config<'_>) -> Result<Vec<Mixer>> {
    let unknown = |field: &str, given: String| {
        Err(Error::new(
            c.field(field),
            ErrorCode::UnknownName,
            given,
            "mamba (M), attention (*), mlp (-) or moe (E) for each layer",
        ))
    };
    let mut told = "hybrid_override_pattern";
    let mixers: Vec<Mixer> = if let Some(listed) = c.list("layers_block_type")? {
        told = "layers_block_type";
        let mut out = Vec::with_capacity(listed.len().min(10_000));
        for kind in listed {
            out.push(match kind.as_str() {
                Some("mamba") => Mixer::Mamba,
                Some("attention") => Mixer::Attention,
                Some("mlp") => Mixer::Mlp,
                Some("moe") => Mixer::Experts,
                _ => return unknown("layers_block_type", kind.to_string()),
            });
        }
        out
    } else {
        let mut out = Vec::new();
        for letter in c.text(&["hybrid_override_pattern"], "M*-")?.chars() {
            out.push(match letter {
                'M' => Mixer::Mamba,
                '*' => Mixer::Attention,
                '-' => Mixer::Mlp,
                'E' => Mixer::Experts,
                other => return unknown("hybrid_override_pattern", other.to_string()),
            });
        }
        out
    };
    match mixers.len() {
        1..=10_000 => Ok(mixers),
        n => Err(Error::new(
            c.field(told),
            ErrorCode::OutOfRange,
            format_args!("{n} layers"),
            "1 to 10000 layers",
        )),
    }
}

/// Sizes of the layers.
struct Shape {
    h: Heads,
    bias: bool,
    mlp: u64,
    mlp_bias: bool,
    act: Act,
    heads: u64,
    inner: u64,
    groups: u64,
    scan: Scan,
    proj_bias: bool,
    experts: u64,
    top_k: u64,
    expert_width: u64,
    shared: u64,
    latent: Option<u64>,
}

impl Shape {
    fn of(c: &Config<'_>) -> Result<Self> {
        let h = heads(c, 4096, 32, Some(8), Some(128))?;
        let mamba_heads = c.count(&["mamba_num_heads"], 128)?;
        let inner = mamba_heads * c.count(&["mamba_head_dim"], 64)?;
        let groups = c.count(&["n_groups"], 8)?;
        let scan = Scan {
            inner,
            state: c.count(&["ssm_state_size"], 128)?,
            taps: c.count(&["conv_kernel"], 4)?,
            rank: 0,
            conv_bias: c.flag(&["use_conv_bias"], true)?,
            heads: mamba_heads,
            groups,
        };
        let experts = c.count(&["n_routed_experts"], 8)?;
        let top_k = c.count(&["num_experts_per_tok"], 2)?;
        c.at_most("num_experts_per_tok", top_k, experts, "n_routed_experts")?;
        Ok(Self {
            h,
            bias: c.flag(&["attention_bias"], false)?,
            mlp: c.int_or(&["intermediate_size"], 21_504)?,
            mlp_bias: c.flag(&["mlp_bias"], false)?,
            act: act(c, &["mlp_hidden_act"], "relu2")?,
            heads: mamba_heads,
            inner,
            groups,
            scan,
            proj_bias: c.flag(&["mamba_proj_bias", "use_bias"], false)?,
            experts,
            top_k,
            expert_width: c.int_or(&["moe_intermediate_size"], 7688)?,
            shared: c.int_or(&["moe_shared_expert_intermediate_size"], 7688)?,
            latent: c.opt_width(&["moe_latent_size"])?,
        })
    }

    fn layer(&self, mixer: Mixer) -> Block {
        let mut b = BlockBuilder::new(BlockKind::Layer, Stream::Main, self.h.hidden);
        let normed = b.norm(INPUT, NormKind::Rms);
        let out = match mixer {
            Mixer::Mamba => self.mamba(&mut b, normed),
            Mixer::Attention => self.attention(&mut b, normed),
            Mixer::Mlp => self.plain(&mut b, normed, self.mlp),
            Mixer::Experts => self.routed(&mut b, normed),
        };
        b.add(INPUT, out);
        if mixer == Mixer::Experts {
            b.buffers(self.experts);
        }
        b.finish()
    }

    fn mamba(&self, b: &mut BlockBuilder, x: Slot) -> Slot {
        let mixed = self.inner + 2 * self.groups * self.scan.state;
        let outputs = self.inner + mixed + self.heads;
        let projected = b.linear(x, "in_proj", outputs, self.proj_bias, Split::Column);
        let gate = b.view(projected, self.inner);
        let x = b.view(projected, mixed);
        let scanned = b.scan(x, gate, self.scan);
        b.linear(scanned, "out_proj", self.h.hidden, self.proj_bias, Split::Row)
    }

    /// No positions: the state-space layers know the order.
    fn attention(&self, b: &mut BlockBuilder, x: Slot) -> Slot {
        let q = b.linear(x, "q_proj", self.h.q(), self.bias, Split::Column);
        let k = b.linear(x, "k_proj", self.h.kv(), self.bias, Split::Column);
        let v = b.linear(x, "v_proj", self.h.kv(), self.bias, Split::Column);
        let attended = b.attention(q, k, v, self.h.attention());
        b.linear(attended, "o_proj", self.h.hidden, self.bias, Split::Row)
    }

    fn plain(&self, b: &mut BlockBuilder, x: Slot, width: u64) -> Slot {
        let up = b.linear(x, "up_proj", width, self.mlp_bias, Split::Column);
        let up = b.act(up, self.act);
        b.linear(up, "down_proj", self.h.hidden, self.mlp_bias, Split::Row)
    }

    fn routed(&self, b: &mut BlockBuilder, x: Slot) -> Slot {
        let weights = b.router(x, RouterKind::SigmoidFp32Input, self.experts, self.top_k, false);
        let (experts, top_k) = (self.experts, self.top_k);
        let routed = if let Some(latent) = self.latent {
            let down = b.linear(x, "fc1_latent_proj", latent, self.mlp_bias, Split::Replicated);
            let out = b.experts(down, weights, ExpertsKind::Plain, experts, top_k, self.expert_width);
            b.linear(out, "fc2_latent_proj", self.h.hidden, self.mlp_bias, Split::Replicated)
        } else {
            b.experts(x, weights, ExpertsKind::Plain, experts, top_k, self.expert_width)
        };
        let shared = self.plain(b, x, self.shared);
        b.add(routed, shared)
    }
}

/// `nemotron_h`.
pub(super) fn nemotron_h(c: &Config<'_>) -> Result<Model> {
    let s = Shape::of(c)?;
    let mixers = mixers(c)?;
    let around = Around::read(c, s.h.hidden, NormKind::Rms, 131_072, false)?;
    Ok(around.model(|stack| {
        for mixer in mixers {
            stack.push(s.layer(mixer), 1);
        }
    }))
}

#[cfg(test)]
mod tests {
    use crate::ModelSpec;

    /// As `transformers` 5 builds the published config.
    #[test]
    fn nemotron_nano_has_the_published_parameters() {
        let counts = ModelSpec::from("nemotron-3-nano-30b-a3b").resolve("model").map(|m| m.counts());
        let counts = counts.map(|c| (c.total, c.tensors, c.buffers));
        assert_eq!(counts, Ok((31_577_937_344, 378, 2944)));
    }
}
