//! What the trained model costs to serve on one GPU, and when quantisation-aware training pays.

use serde::{Deserialize, Serialize};
use shardwise_derive::{FromJson, ToJson};

use crate::error::{Result, in_range};
use crate::quantity::{Bytes, BytesPerSecond, FlopsPerSecond, Seconds, Usd, UsdPerSecond, count};

/// The model as it is served.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ServedModel {
    /// All weights in the served format.
    pub weights: Bytes,
    /// Of these, what one token reads: fewer than all in a mixture of experts.
    pub read_weights: Bytes,
    /// Parameters that one token meets.
    pub active_parameters: f64,
    /// Key-value cache per token: 2 x layers x key-value heads x head width x bytes.
    pub cache_per_token: Bytes,
}

impl ServedModel {
    /// A dense model of `parameters` at `bits` per weight.
    ///
    /// ```
    /// use shardwise::ledger::ServedModel;
    /// use shardwise::Bytes;
    /// let kv = Bytes::new(131_072.0).unwrap();
    /// assert_eq!(ServedModel::dense(8e9, 16.0, kv).weights.get(), 16e9);
    /// ```
    #[must_use]
    pub fn dense(parameters: f64, bits: f64, cache_per_token: Bytes) -> Self {
        let weights = Bytes::of(parameters * bits / 8.0);
        Self { weights, read_weights: weights, active_parameters: parameters, cache_per_token }
    }
}

/// The GPU that serves.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ServingGpu {
    /// Memory a process may use.
    pub memory: Bytes,
    /// Memory bandwidth as reached.
    pub bandwidth: BytesPerSecond,
    /// Matrix arithmetic of the compute type as reached.
    pub compute: FlopsPerSecond,
    /// Price per time.
    pub price: UsdPerSecond,
    /// Memory for context, workspace and activations.
    #[serde(default = "usual_reserve")]
    pub reserve: Bytes,
}

fn usual_reserve() -> Bytes {
    Bytes::from_gib(1.5)
}

/// The requests.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ServingLoad {
    /// Tokens of a prompt.
    pub prompt: f64,
    /// Tokens of an answer.
    pub answer: f64,
    /// Sequences decoded together at most; memory may allow fewer.
    pub batch: u32,
    /// Tokens proposed by a draft at a time; 0 without speculative decoding.
    #[serde(default)]
    pub draft_tokens: u32,
    /// Probability that a proposed token is accepted.
    #[serde(default)]
    pub acceptance: f64,
    /// Time of one draft token over the time of one token of the model.
    #[serde(default)]
    pub draft_cost: f64,
}

/// What serving comes to; `None` figures mean that the model does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, ToJson)]
pub struct ServingCost {
    /// Memory with one sequence: weights, reserve and its cache.
    pub least_memory: Bytes,
    /// Memory with the batch served.
    pub memory: Bytes,
    /// Sequences decoded together: the batch asked, or what memory allows.
    pub batch: u32,
    /// From prompt to first token.
    pub first_token: Seconds,
    /// Between two tokens of one answer.
    pub per_token: Seconds,
    /// Answer tokens per second over all sequences, prompts included in the time.
    pub tokens_per_second: f64,
    /// Price of a million answer tokens, prompts included.
    pub per_million: Usd,
}

impl ServingLoad {
    /// Checks every range.
    ///
    /// # Errors
    /// Names the first field outside its range.
    pub fn validate(&self) -> Result<()> {
        in_range("prompt", self.prompt, 0.0, 1e8)?;
        in_range("answer", self.answer, 1.0, 1e8)?;
        in_range("batch", f64::from(self.batch), 1.0, 1e6)?;
        in_range("draft_tokens", f64::from(self.draft_tokens), 0.0, 64.0)?;
        in_range("acceptance", self.acceptance, 0.0, 1.0)?;
        in_range("draft_cost", self.draft_cost, 0.0, 10.0)?;
        Ok(())
    }

    /// Tokens gained per pass of the model over its time with the draft: (1 - a^(g+1)) /
    /// ((1 - a) (1 + g c)) for acceptance a, g draft tokens, draft cost c.
    ///
    /// Source: Leviathan et al. 2023, "Fast inference from transformers via speculative decoding",
    /// theorem 3.8.
    ///
    /// ```
    /// use shardwise::ledger::ServingLoad;
    /// let load = ServingLoad {
    ///     prompt: 0.0, answer: 1.0, batch: 1, draft_tokens: 4, acceptance: 0.8, draft_cost: 0.05,
    /// };
    /// assert_eq!(format!("{:.2}", load.speculative_gain()), "2.80");
    /// ```
    #[must_use]
    pub fn speculative_gain(&self) -> f64 {
        let (a, g) = (self.acceptance, f64::from(self.draft_tokens));
        let tokens = if a >= 1.0 { g + 1.0 } else { (1.0 - libm::pow(a, g + 1.0)) / (1.0 - a) };
        tokens / (1.0 + g * self.draft_cost)
    }
}

/// The cost of serving `model` on one `gpu`; `None` if it does not fit with a single sequence.
///
/// Decoding a token for b sequences takes the longer of reading (the weights once, b caches) and
/// computing (2 flops per active parameter and sequence, b times); a pass that verifies g draft
/// tokens computes g + 1 positions. A prompt is computed at once: 2 flops per active parameter and
/// token, at least one reading of the weights.
///
/// Source: roofline of Pope et al. 2022, "Efficiently scaling transformer inference".
///
/// ```
/// use shardwise::ledger::{ServedModel, ServingGpu, ServingLoad, serving_cost};
/// use shardwise::{Bytes, BytesPerSecond, FlopsPerSecond, UsdPerSecond};
/// let kv = Bytes::new(131_072.0).unwrap();
/// let gpu = ServingGpu {
///     memory: Bytes::new(24e9).unwrap(),
///     bandwidth: BytesPerSecond::new(0.9e12).unwrap(),
///     compute: FlopsPerSecond::new(130e12).unwrap(),
///     price: UsdPerSecond::new(0.5 / 3600.0).unwrap(),
///     reserve: Bytes::new(1.6e9).unwrap(),
/// };
/// let load = ServingLoad {
///     prompt: 500.0, answer: 300.0, batch: 64, draft_tokens: 0, acceptance: 0.0, draft_cost: 0.0,
/// };
/// let full = serving_cost(&ServedModel::dense(8e9, 16.0, kv), &gpu, &load).unwrap().unwrap();
/// let four = serving_cost(&ServedModel::dense(8e9, 4.5, kv), &gpu, &load).unwrap().unwrap();
/// assert!(four.per_million < full.per_million * 0.7);
/// ```
///
/// # Errors
/// If a field is outside its range.
pub fn serving_cost(
    model: &ServedModel,
    gpu: &ServingGpu,
    load: &ServingLoad,
) -> Result<Option<ServingCost>> {
    load.validate().map_err(|e| e.under("load"))?;
    in_range("gpu.memory", gpu.memory.get(), 1e6, 2e15)?;
    in_range("gpu.bandwidth", gpu.bandwidth.get(), 1e6, 1e16)?;
    in_range("gpu.compute", gpu.compute.get(), 1e6, 1e19)?;
    in_range("gpu.price", gpu.price.get(), 0.0, 1e3)?;
    in_range("gpu.reserve", gpu.reserve.get(), 0.0, 1e15)?;
    in_range("model.weights", model.weights.get(), 1.0, 1e15)?;
    in_range("model.read_weights", model.read_weights.get(), 1.0, model.weights.get())?;
    in_range("model.active_parameters", model.active_parameters, 1.0, 1e15)?;
    in_range("model.cache_per_token", model.cache_per_token.get(), 0.0, 1e12)?;

    let cache = model.cache_per_token * (load.prompt + load.answer);
    let least_memory = model.weights + gpu.reserve + cache;
    if least_memory > gpu.memory {
        return Ok(None);
    }
    let room = (gpu.memory - model.weights - gpu.reserve).get() / cache.get().max(1.0);
    let batch = load.batch.min(u32::try_from(count(room.max(1.0))).unwrap_or(u32::MAX));
    let b = f64::from(batch);

    let token_flops = 2.0 * model.active_parameters;
    let mean_cache = model.cache_per_token * (load.prompt + load.answer / 2.0);
    let read = (model.read_weights + mean_cache * b) / gpu.bandwidth;
    let positions = f64::from(load.draft_tokens) + 1.0;
    let compute = Seconds::of(token_flops * b * positions / gpu.compute.get());
    let pass = read.max(compute);
    let per_token = pass / load.speculative_gain();

    let prefill = Seconds::of(token_flops * load.prompt / gpu.compute.get());
    let first_token = prefill.max(model.read_weights / gpu.bandwidth);
    // Prefills of the batch take turns with decoding: each answer pays for its prompt.
    let round = prefill * b + per_token * load.answer;
    let tokens_per_second = b * load.answer / round.get();
    Ok(Some(ServingCost {
        least_memory,
        memory: model.weights + gpu.reserve + cache * b,
        batch,
        first_token: first_token + per_token,
        per_token,
        tokens_per_second,
        per_million: gpu.price * Seconds::of(1e6 / tokens_per_second),
    }))
}

/// When dearer training for cheaper serving is paid back.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, ToJson)]
pub struct BreakEven {
    /// What the training costs more.
    pub extra_training: Usd,
    /// What a million tokens cost less.
    pub saved_per_million: Usd,
    /// Tokens after which it is paid back; absent if serving gets no cheaper.
    pub tokens: Option<f64>,
}

impl BreakEven {
    /// Tokens a day that pay it back within `days`.
    #[must_use]
    pub fn tokens_a_day(&self, days: f64) -> Option<f64> {
        self.tokens.map(|tokens| tokens / days)
    }
}

/// Weighs quantisation-aware training, `slower` times as long (1.1 to 1.3 of plain training), against
/// the cheaper serving of its result.
///
/// ```
/// use shardwise::ledger::qat_break_even;
/// use shardwise::Usd;
/// let usd = |x: f64| Usd::new(x).unwrap();
/// // 20 % more on a 5,000 USD fine-tune; serving at 0.20 instead of 0.40 USD per million: paid back
/// // after 5 billion tokens, 10 million a day for 500 days.
/// let even = qat_break_even(usd(5000.0), 1.2, usd(0.40), usd(0.20));
/// assert_eq!(even.tokens.map(f64::round), Some(5e9));
/// assert_eq!(even.tokens_a_day(500.0).map(f64::round), Some(1e7));
/// ```
#[must_use]
pub fn qat_break_even(training: Usd, slower: f64, plain_per_million: Usd, qat_per_million: Usd) -> BreakEven {
    let extra_training = training * (slower - 1.0);
    let saved_per_million = plain_per_million - qat_per_million;
    let tokens = (saved_per_million > Usd::ZERO).then(|| 1e6 * (extra_training / saved_per_million).max(0.0));
    BreakEven { extra_training, saved_per_million, tokens }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpu(gb: f64) -> ServingGpu {
        ServingGpu {
            memory: Bytes::of(gb * 1e9),
            bandwidth: BytesPerSecond::of(0.8e12),
            compute: FlopsPerSecond::of(100e12),
            price: UsdPerSecond::of(1e-4),
            reserve: Bytes::of(1e9),
        }
    }

    fn load(batch: u32) -> ServingLoad {
        ServingLoad { prompt: 400.0, answer: 200.0, batch, draft_tokens: 0, acceptance: 0.0, draft_cost: 0.0 }
    }

    #[test]
    fn eight_gb_serve_a_7b_at_four_bits_but_not_at_sixteen() -> Result<()> {
        let kv = Bytes::of(131_072.0);
        let sixteen = serving_cost(&ServedModel::dense(7e9, 16.0, kv), &gpu(8.0), &load(4))?;
        let four = serving_cost(&ServedModel::dense(7e9, 4.5, kv), &gpu(8.0), &load(4))?;
        assert!(sixteen.is_none());
        assert!(four.is_some_and(|c| c.memory <= Bytes::of(8e9)));
        Ok(())
    }

    #[test]
    fn one_sequence_reads_the_weights_once_per_token() -> Result<()> {
        let model = ServedModel::dense(7e9, 16.0, Bytes::ZERO);
        let cost = serving_cost(&model, &gpu(24.0), &load(1))?;
        assert!(cost.is_some_and(|c| (c.per_token.get() - 14e9 / 0.8e12).abs() < 1e-12));
        Ok(())
    }

    #[test]
    fn batching_never_makes_a_token_dearer() -> Result<()> {
        let model = ServedModel::dense(7e9, 8.0, Bytes::of(131_072.0));
        let mut before = Usd::of(f64::MAX);
        for batch in [1, 2, 4, 8, 16, 32, 64, 512] {
            let cost = serving_cost(&model, &gpu(24.0), &load(batch))?.map(|c| c.per_million);
            let now = cost.unwrap_or(Usd::of(f64::MAX));
            assert!(now <= before, "{batch}");
            before = now;
        }
        Ok(())
    }

    #[test]
    fn a_draft_helps_only_while_memory_binds() -> Result<()> {
        let model = ServedModel::dense(7e9, 16.0, Bytes::ZERO);
        let with = |batch, draft_tokens| {
            let load = ServingLoad { draft_tokens, acceptance: 0.7, draft_cost: 0.05, ..load(batch) };
            serving_cost(&model, &gpu(24.0), &load).map(|c| c.map_or(Usd::ZERO, |c| c.per_million))
        };
        assert!(with(1, 4)? < with(1, 0)?);
        assert!(with(4096, 4)? > with(4096, 0)?);
        Ok(())
    }

    #[test]
    fn the_first_token_waits_for_the_prompt_and_its_own_pass() -> Result<()> {
        let model = ServedModel::dense(7e9, 4.5, Bytes::of(131_072.0));
        let cost = serving_cost(&model, &gpu(24.0), &load(1))?.unwrap();
        // 400 tokens of 14 GFLOP at 100 TFLOP/s.
        let prompt = (cost.first_token - cost.per_token).get();
        assert!((prompt / (400.0 * 14e9 / 100e12) - 1.0).abs() < 1e-9, "{prompt}");
        Ok(())
    }
}
