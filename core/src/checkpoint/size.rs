//! What is written.

use serde::{Deserialize, Serialize};
use shardwise_derive::{FromJson, ToJson};

use crate::error::{Result, in_range};
use crate::quantity::Bytes;
use crate::term::{Term, Terms};

/// What a checkpoint is to hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Contents {
    /// Everything training goes on from: weights, master weights, optimizer states.
    #[default]
    Resume,
    /// The weights alone, frozen ones included.
    Model,
    /// Trainable parameters and their optimizer states; a frozen base is loaded from its source.
    AdaptersResume,
    /// Trainable parameters alone.
    Adapters,
}

/// What a framework keeps per parameter, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum StateFormat {
    /// PyTorch FSDP or DDP with fp32 parameters: 4, no separate master, AdamW moments 8.
    ///
    /// Source: `torch.distributed.checkpoint` saves the sharded state dict as it is.
    #[default]
    Fp32,
    /// Pure bf16 training: 2, moments in bf16 4.
    PureBf16,
    /// DeepSpeed and Megatron mixed precision with AdamW: 2, master 4, moments 8. BLOOM's 14 bytes.
    ///
    /// Source: bigscience train/tr11-176B-ml/README.md, "2.3TB" for 176 B parameters.
    MixedMaster,
    /// A distributed optimizer that saves the master weights as the weights: 4, moments 8.
    MasterOnly,
    /// Mixed precision with 8-bit moments: 2, master 4, moments 2.
    MixedEightBit,
}

impl StateFormat {
    /// Bytes per parameter of weights, master weights and optimizer states.
    fn bytes(self) -> [f64; 3] {
        match self {
            Self::Fp32 | Self::MasterOnly => [4.0, 0.0, 8.0],
            Self::PureBf16 => [2.0, 0.0, 4.0],
            Self::MixedMaster => [2.0, 4.0, 8.0],
            Self::MixedEightBit => [2.0, 4.0, 2.0],
        }
    }
}

/// The state a checkpoint is taken of.
///
/// ```
/// use shardwise::checkpoint::{Contents, SavedState, StateFormat};
/// // BLOOM: 176.247 B parameters; the README prints 2295 GiB as "2.3TB".
/// let bloom = SavedState::new(176_247_271_424.0, StateFormat::MixedMaster);
/// assert!((bloom.bytes(Contents::Resume).total().gib() / 2295.0 - 1.0).abs() < 0.002);
/// assert!((bloom.bytes(Contents::Model).total().gib() / 329.0 - 1.0).abs() < 0.003);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SavedState {
    /// Parameters of the model, frozen ones included.
    pub parameters: f64,
    /// Of these, or beside them, the trainable ones.
    pub trainable: f64,
    /// Bytes per frozen parameter: 0.516 for NF4 with double quantisation.
    #[serde(default = "two")]
    pub frozen_bytes: f64,
    /// Bytes per parameter in the saved weights.
    pub weight_bytes: f64,
    /// Bytes per trainable parameter of separate master weights.
    pub master_bytes: f64,
    /// Bytes per trainable parameter of optimizer states.
    pub optimizer_bytes: f64,
}

fn two() -> f64 {
    2.0
}

impl SavedState {
    /// Every parameter trainable, kept as `format` does.
    #[must_use]
    pub fn new(parameters: f64, format: StateFormat) -> Self {
        let [weight_bytes, master_bytes, optimizer_bytes] = format.bytes();
        Self {
            parameters,
            trainable: parameters,
            frozen_bytes: weight_bytes,
            weight_bytes,
            master_bytes,
            optimizer_bytes,
        }
    }

    /// The same with `trainable` of the parameters trained.
    #[must_use]
    pub fn training_only(self, trainable: f64) -> Self {
        Self { trainable, ..self }
    }

    /// Checks every range.
    ///
    /// # Errors
    /// Names the first field outside its range.
    pub fn validate(&self) -> Result<()> {
        in_range("parameters", self.parameters, 1.0, 1e15)?;
        in_range("trainable", self.trainable, 0.0, self.parameters)?;
        for (field, bytes) in [
            ("frozen_bytes", self.frozen_bytes),
            ("weight_bytes", self.weight_bytes),
            ("master_bytes", self.master_bytes),
            ("optimizer_bytes", self.optimizer_bytes),
        ] {
            in_range(field, bytes, 0.0, 64.0)?;
        }
        Ok(())
    }

    /// What is written, part by part. Gradients are not.
    #[must_use]
    pub fn bytes(&self, contents: Contents) -> Terms<Bytes> {
        const SOURCE: &str = "state dict of the framework";
        let resume = matches!(contents, Contents::Resume | Contents::AdaptersResume);
        let base = matches!(contents, Contents::Resume | Contents::Model);
        let frozen = (self.parameters - self.trainable).max(0.0);
        let mut terms = vec![Term::new(
            "trained weights",
            Bytes::of(self.trainable * self.weight_bytes),
            "trainable x weight bytes",
            SOURCE,
        )];
        if base && frozen > 0.0 {
            let amount = Bytes::of(frozen * self.frozen_bytes);
            terms.push(Term::new("frozen weights", amount, "frozen x frozen bytes", SOURCE));
        }
        if resume {
            let master = Bytes::of(self.trainable * self.master_bytes);
            let optimizer = Bytes::of(self.trainable * self.optimizer_bytes);
            terms.push(Term::new("master weights", master, "trainable x master bytes", SOURCE));
            terms.push(Term::new("optimizer states", optimizer, "trainable x optimizer bytes", SOURCE));
        }
        Terms(terms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adapters_save_a_sliver_of_the_model() {
        let qlora =
            SavedState { frozen_bytes: 0.516, ..SavedState::new(7e9, StateFormat::Fp32) }.training_only(40e6);
        assert_eq!(qlora.bytes(Contents::Adapters).total(), Bytes::of(160e6));
        assert_eq!(qlora.bytes(Contents::AdaptersResume).total(), Bytes::of(480e6));
        let all = qlora.bytes(Contents::Resume).total();
        assert!(all > qlora.bytes(Contents::Model).total() && all < Bytes::of(4.1e9));
    }

    /// MT-NLG's 530 B parameters took 42 min at 20 Gb/s, which is 6.3 TB: fp32 weights and moments
    /// without a bf16 copy. Within 2 %.
    #[test]
    fn mt_nlg_saved_its_master_states() {
        let size = SavedState::new(530e9, StateFormat::MasterOnly).bytes(Contents::Resume).total();
        assert!((size.get() / (2520.0 * 2.5e9) - 1.0).abs() < 0.02, "{size}");
    }
}
