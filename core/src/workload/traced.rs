//! A module that was traced rather than known: its parts in the order in which they run, each with
//! what it keeps, needs and multiplies, as straight lines in the tokens of a micro-batch.
//!
//! ```json
//! {"model_type": "traced", "name": "resnet50", "tokens": 1, "parts": [
//!   {"name": "layer1.0", "unit": true, "parameters": 75008, "frozen": 0, "tensors": 12,
//!    "largest": 36864, "buffers": 0, "kernels": 52,
//!    "products": [[3136.0, 64.0, 576.0, 1.0]],
//!    "regimes": {
//!      "fp32":     {"whole": {"kept": [0, 12845056], "forward": [[0, 14450000, 0, 1, 0, 0, 0, 0, 0]],
//!                             "backward": [[8192, 19270000, 36864, 0, 0, 64, 0, 0, 3136]]},
//!                   "recomputed": {"kept": [0, 802816], "forward": [[0, 14450000, 0, 1, 0, 0, 0, 0, 0]],
//!                                  "backward": [[8192, 20070000, 36864, 0, 0, 64, 0, 0, 3136]]},
//!                   "held": [0, 0], "traffic": [0, 51380224], "traffic_backward": [0, 102760448]},
//!      "autocast": {}, "bf16": {}}}]}
//! ```
//!
//! (The other two regimes are as the first.) A line `[fixed, per_token]` is in bytes. `kept` is what
//! the part's forward leaves for backward. `forward` are the fullest instants of its forward, less
//! what the parts before it keep; `backward` are those of its backward, less the same and less all
//! finished gradients of weights. An instant is `[fixed, per_token, elements, workspaces, taken,
//! columns, columns_per_token, rows, rows_per_token]`: its line, the elements of the finished gradients
//! of weights beyond those of the parts after it, the workspaces of matrix products in use, what an
//! accelerator's kernel takes beside, in bytes a token, and the columns and rows of the matrix that is
//! summed over its rows, two lines. All were traced twice, with the units kept whole and with every unit recomputed. `held` is what is alive between backward
//! and the end of the step: inputs and outputs that the script holds. `products` are
//! `[rows a token, columns, depth, number]`; `traffic` is what all other kernels read and write.

use serde::Deserialize;
use serde_json::{Map, Value};
use shardwise_derive::FromJson;

use super::block::{Block, BlockKind, Stream};
use super::model::{Model, Run};
use crate::error::{Result, entries, in_range};
use crate::read::{FromJson, from_value};

/// `fixed + per_token x tokens`, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
pub struct BytesLine(pub f64, pub f64);

impl FromJson for BytesLine {
    fn hollow() -> Self {
        Self::default()
    }

    fn read(&mut self, value: &Value) -> Result<()> {
        let mut both = [0.0; 2];
        both.read(value)?;
        *self = Self(both[0], both[1]);
        Ok(())
    }
}

/// What is alive at an instant of a part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(from = "[f64; 9]")]
pub struct TracedInstant {
    /// Bytes of tensors.
    pub bytes: BytesLine,
    /// Elements of the gradients of weights that are finished by then.
    pub gradients: f64,
    /// Workspaces of matrix products that are in use.
    pub workspaces: f64,
    /// Columns of a matrix that is summed over its rows.
    pub columns: BytesLine,
    /// Its rows.
    pub rows: BytesLine,
    /// Bytes a token that an accelerator's kernel takes beside, and gives back.
    pub taken: f64,
}

impl From<[f64; 9]> for TracedInstant {
    fn from([fixed, per_token, gradients, workspaces, taken, c, columns, r, rows]: [f64; 9]) -> Self {
        let (bytes, columns, rows) = (BytesLine(fixed, per_token), BytesLine(c, columns), BytesLine(r, rows));
        Self { bytes, gradients, workspaces, columns, rows, taken }
    }
}

impl FromJson for TracedInstant {
    fn hollow() -> Self {
        Self::default()
    }

    fn read(&mut self, value: &Value) -> Result<()> {
        let mut figures = [0.0; 9];
        figures.read(value)?;
        *self = Self::from(figures);
        Ok(())
    }
}

/// What is alive while a part runs, less what the parts before it keep.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, FromJson)]
#[serde(deny_unknown_fields)]
pub struct TracedPeaks {
    /// Left by forward for backward.
    pub kept: BytesLine,
    /// The fullest instants of its forward.
    pub forward: Vec<TracedInstant>,
    /// The fullest instants of its backward.
    pub backward: Vec<TracedInstant>,
}

/// What a part costs under one mix of number formats.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, FromJson)]
#[serde(deny_unknown_fields)]
pub struct TracedBytes {
    /// When every unit keeps what its backward needs.
    pub whole: TracedPeaks,
    /// When the forward of every unit runs again in backward.
    pub recomputed: TracedPeaks,
    /// Alive between backward and the end of the step.
    #[serde(default)]
    pub held: BytesLine,
    /// Read and written forward by kernels that are no matrix products.
    pub traffic: BytesLine,
    /// The same backward.
    pub traffic_backward: BytesLine,
}

/// The mixes of number formats that were traced.
#[derive(Clone, Debug, PartialEq, Deserialize, FromJson)]
#[serde(deny_unknown_fields)]
pub struct Regimes {
    /// All in fp32.
    pub fp32: TracedBytes,
    /// fp32 parameters under `torch.autocast`.
    pub autocast: TracedBytes,
    /// All in 16 bits.
    pub bf16: TracedBytes,
}

impl Regimes {
    /// The regime of 16-bit or wider `compute`, with or without autocast.
    #[must_use]
    pub const fn of(&self, sixteen_bit: bool, autocast: bool) -> &TracedBytes {
        match (sixteen_bit, autocast) {
            (_, true) => &self.autocast,
            (true, false) => &self.bf16,
            (false, false) => &self.fp32,
        }
    }
}

/// A stretch of a traced forward: a unit of FSDP, or what runs between units.
#[derive(Clone, Debug, PartialEq, Deserialize, FromJson)]
#[serde(deny_unknown_fields)]
pub struct TracedPart {
    /// The module's name.
    pub name: String,
    /// Whether FSDP gathers it by itself and a checkpoint may wrap it.
    pub unit: bool,
    /// Whether none of its inputs wants a gradient, as of the first unit, or of one above a frozen tower.
    #[serde(default)]
    pub input_free: bool,
    /// Parameters it owns.
    pub parameters: u64,
    /// Of these, not trained.
    #[serde(default)]
    pub frozen: u64,
    /// Parameter tensors.
    pub tensors: u64,
    /// Elements of the largest.
    pub largest: u64,
    /// Elements of buffers, in the type of the parameters.
    #[serde(default)]
    pub buffers: u64,
    /// Floating numbers a token of what the script calls the model with.
    #[serde(default)]
    pub inputs: f64,
    /// Matrix products: rows a token, columns, depth, number.
    pub products: Vec<[f64; 4]>,
    /// Kernels launched forward.
    pub kernels: u64,
    /// Bytes by number formats.
    pub regimes: Regimes,
}

#[derive(Deserialize, FromJson)]
#[serde(deny_unknown_fields)]
struct Spec {
    #[serde(rename = "model_type")]
    _model_type: String,
    #[serde(default, rename = "name")]
    _name: String,
    #[serde(default = "one")]
    tokens: u64,
    parts: Vec<TracedPart>,
}

const fn one() -> u64 {
    1
}

/// Bounds whose products stay far inside the finite range.
const MOST_PARAMETERS: f64 = 1e14;
const MOST_BYTES: f64 = 1e15;
const MOST_PARTS: usize = 100_000;

/// Reads a traced model. `field` is where the request holds it.
pub(super) fn read(map: &Map<String, Value>, field: &str) -> Result<Model> {
    let spec: Spec = from_value(&Value::Object(map.clone())).map_err(|e| e.under(field))?;
    in_range("tokens", spec.tokens as f64, 1.0, 1e8).map_err(|e| e.under(field))?;
    entries("parts", spec.parts.len(), 1, MOST_PARTS).map_err(|e| e.under(field))?;
    let mut blocks: Vec<Block> = Vec::with_capacity(spec.parts.len());
    let mut order = Vec::with_capacity(spec.parts.len());
    for (i, part) in spec.parts.into_iter().enumerate() {
        part.validate().map_err(|e| e.entry("parts", i).under(field))?;
        order.push(Run { block: i, count: 1 });
        blocks.push(Block {
            kind: BlockKind::Layer,
            stream: Stream::Main,
            ops: Vec::new(),
            slots: Vec::new(),
            buffers: part.buffers,
            traced: Some(Box::new(part)),
        });
    }
    Ok(Model {
        name: String::new(),
        family: "traced",
        blocks,
        order,
        hidden: 0,
        vocabulary: 0,
        tied: false,
        max_positions: None,
        fixed_tokens: Some(spec.tokens),
    })
}

impl TracedPart {
    /// Errors are relative to the part.
    fn validate(&self) -> Result<()> {
        for (name, count, most) in [
            ("parameters", self.parameters, MOST_PARAMETERS),
            ("frozen", self.frozen, self.parameters as f64),
            ("largest", self.largest, self.parameters as f64),
            ("tensors", self.tensors, MOST_PARAMETERS),
            ("buffers", self.buffers, MOST_PARAMETERS),
            ("kernels", self.kernels, 1e9),
        ] {
            in_range(name, count as f64, 0.0, most)?;
        }
        in_range("inputs", self.inputs, 0.0, 1e9)?;
        for &size in self.products.iter().flatten() {
            in_range("products", size, 0.0, 1e12)?;
        }
        let r = &self.regimes;
        for (regime, b) in [("fp32", &r.fp32), ("autocast", &r.autocast), ("bf16", &r.bf16)] {
            let between = |name: &str, figures: &[f64], low: f64, high: f64| {
                figures.iter().try_for_each(|&figure| {
                    let given = in_range(name, figure, low, high).map(drop);
                    given.map_err(|e| e.under(regime).under("regimes"))
                })
            };
            let within = |name: &str, bytes: &[f64]| between(name, bytes, -MOST_BYTES, MOST_BYTES);
            for (name, line) in
                [("held", b.held), ("traffic", b.traffic), ("traffic_backward", b.traffic_backward)]
            {
                within(name, &[line.0, line.1])?;
            }
            for (name, peaks) in [("whole", &b.whole), ("recomputed", &b.recomputed)] {
                within(name, &[peaks.kept.0, peaks.kept.1])?;
                for i in peaks.forward.iter().chain(&peaks.backward) {
                    within(name, &[i.bytes.0, i.bytes.1, i.gradients, i.workspaces, i.taken])?;
                    between(name, &[i.columns.0, i.columns.1, i.rows.0, i.rows.1], -1e9, 1e9)?;
                }
            }
        }
        Ok(())
    }

    /// Share of its parameters that is trained.
    #[must_use]
    pub fn trained(&self) -> f64 {
        if self.parameters == 0 {
            return 1.0;
        }
        (self.parameters - self.frozen) as f64 / self.parameters as f64
    }

    /// Forward arithmetic of its products for `tokens` tokens.
    #[must_use]
    pub fn flops(&self, tokens: f64) -> f64 {
        self.products.iter().map(|[m, n, k, count]| 2.0 * m * tokens * n * k * count).sum()
    }
}

#[cfg(test)]
mod tests {
    use crate::workload::ModelSpec;

    fn spec(part: &str) -> ModelSpec {
        let peaks = r#"{"kept": [0, 8], "forward": [[0, 9, 0, 0, 0, 0, 0, 0, 0]], "backward": [[0, 16, 6, 0, 0, 0, 0, 0, 0]]}"#;
        let bytes = format!(
            r#"{{"whole": {peaks}, "recomputed": {peaks}, "traffic": [0, 1], "traffic_backward": [0, 2]}}"#
        );
        let text = format!(
            r#"{{"model_type": "traced", "tokens": 2, "parts": [{{"name": "a", "unit": true,
                "tensors": 1, "largest": 6, "products": [[1, 2, 3, 1]], "kernels": 1, {part},
                "regimes": {{"fp32": {bytes}, "autocast": {bytes}, "bf16": {bytes}}}}}]}}"#
        );
        ModelSpec(serde_json::from_str(&text).unwrap_or_default())
    }

    #[test]
    fn a_traced_model_counts_what_its_parts_own() {
        let model = spec(r#""parameters": 6"#).resolve("model").map_err(|e| e.to_string());
        assert_eq!(model.as_ref().map(|m| m.counts().total), Ok(6));
        assert_eq!(model.map(|m| m.fixed_tokens), Ok(Some(2)));
    }

    #[test]
    fn faults_name_their_field() {
        for (part, field) in [
            (r#""parameters": 6, "frozen": 7"#, "model.parts[0].frozen"),
            (r#""parameters": -1"#, "model.parts[0].parameters"),
            (r#""parameters": 6, "colour": 1"#, "model.parts[0].colour"),
        ] {
            let fault = spec(part).resolve("model").map_err(|e| e.field.clone());
            assert_eq!(fault.err().as_deref(), Some(field));
        }
    }
}
