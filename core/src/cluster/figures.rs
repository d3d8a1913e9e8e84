//! The figures of a row as quantities, and their ranges. Rows may come from a user, so every number
//! is checked before it is used. Errors are relative to the row.

use crate::error::{Error, ErrorCode, Result, in_range};
use crate::{Bytes, BytesPerSecond, FlopsPerSecond, Watts};

use super::resolved::Peaks;
use super::rows::{Accelerator, Instance, Link, Platform, StorageOffer};

/// Largest figure a row may hold, in its own unit: far above any machine, far below overflow.
const MOST: f64 = 1e9;
/// Smallest figure where zero has no meaning.
const LEAST: f64 = 1e-6;
/// Parts in a node or joined by a link, at most.
pub(super) const MOST_GPUS: u32 = 65_536;

pub(super) const fn gb_s(rate: f64) -> BytesPerSecond {
    BytesPerSecond::of(rate * 1e9)
}

/// Network rates are in bits: 8 Gbit/s are 1 GB/s.
pub(super) const fn gbit_s(rate: f64) -> BytesPerSecond {
    BytesPerSecond::of(rate * 1e9 / 8.0)
}

/// `Ok` when the figure is absent or positive and in bounds.
fn positive(field: &str, value: Option<f64>) -> Result<()> {
    bounded(field, value, LEAST, MOST)
}

/// `Ok` when the figure is absent or in bounds.
fn bounded(field: &str, value: Option<f64>, low: f64, high: f64) -> Result<()> {
    match value {
        Some(value) => in_range(field, value, low, high).map(drop),
        None => Ok(()),
    }
}

fn count(field: &str, value: Option<u32>) -> Result<()> {
    bounded(field, value.map(f64::from), 1.0, f64::from(MOST_GPUS))
}

/// Names stay short: they are matched, printed and suggested.
fn named(field: &str, name: &str) -> Result<()> {
    if (1..=super::named::LONGEST).contains(&name.len()) {
        return Ok(());
    }
    let allowed = format!("a name of 1 to {} bytes", super::named::LONGEST);
    Err(Error::new(field, ErrorCode::OutOfRange, format_args!("\"{name}\""), allowed))
}

impl Accelerator {
    /// Dense peaks of the whole part.
    #[must_use]
    pub fn peaks(&self) -> Peaks {
        let tera = |x: Option<f64>| x.map(|x| FlopsPerSecond::of(x * 1e12));
        Peaks {
            fp32: tera(self.fp32_tflops),
            tf32: tera(self.tf32_tflops),
            fp16: tera(self.fp16_tflops),
            bf16: tera(self.bf16_tflops),
            fp8: tera(self.fp8_tflops),
            fp4: tera(self.fp4_tflops),
            int8: tera(self.int8_tops),
        }
    }

    /// Memory a framework sees in the whole part. `None` where nobody published it.
    #[must_use]
    pub fn usable_memory(&self) -> Option<Bytes> {
        self.usable_gib.map(Bytes::from_gib)
    }

    /// Memory on the label, read as decimal GB.
    #[must_use]
    pub fn label_memory(&self) -> Bytes {
        Bytes::of(self.memory_gb * 1e9)
    }

    /// Memory bandwidth of the whole part.
    #[must_use]
    pub fn bandwidth(&self) -> BytesPerSecond {
        gb_s(self.bandwidth_gb_s)
    }

    /// The link to its neighbours, one direction: half of what the vendor prints.
    #[must_use]
    pub fn link_bandwidth(&self) -> Option<BytesPerSecond> {
        self.link_bidirectional_gb_s.map(|both| gb_s(both / 2.0))
    }

    /// The best bf16 matrix product measured on the whole part.
    #[must_use]
    pub fn measured_bf16(&self) -> Option<FlopsPerSecond> {
        self.measured_bf16_tflops.map(|x| FlopsPerSecond::of(x * 1e12))
    }

    /// The best fp8 matrix product measured on the whole part.
    #[must_use]
    pub fn measured_fp8(&self) -> Option<FlopsPerSecond> {
        self.measured_fp8_tflops.map(|x| FlopsPerSecond::of(x * 1e12))
    }

    /// Design power.
    #[must_use]
    pub fn power(&self) -> Option<Watts> {
        self.tdp_w.map(Watts::of)
    }

    pub(super) fn check(&self) -> Result<()> {
        named("id", &self.id)?;
        for alias in &self.aliases {
            named("aliases", alias)?;
        }
        positive("memory_gb", Some(self.memory_gb))?;
        positive("usable_gib", self.usable_gib)?;
        positive("bandwidth_gb_s", Some(self.bandwidth_gb_s))?;
        positive("fp32_tflops", self.fp32_tflops)?;
        positive("tf32_tflops", self.tf32_tflops)?;
        positive("fp16_tflops", self.fp16_tflops)?;
        positive("bf16_tflops", self.bf16_tflops)?;
        positive("fp8_tflops", self.fp8_tflops)?;
        positive("fp4_tflops", self.fp4_tflops)?;
        positive("int8_tops", self.int8_tops)?;
        positive("link_bidirectional_gb_s", self.link_bidirectional_gb_s)?;
        positive("tdp_w", self.tdp_w)?;
        positive("measured_bf16_tflops", self.measured_bf16_tflops)?;
        positive("measured_fp8_tflops", self.measured_fp8_tflops)?;
        bounded("matmul_fraction", self.matmul_fraction, 0.01, 1.0)?;
        bounded("devices", self.devices.map(f64::from), 1.0, 64.0)?;
        count("link_domain", self.link_domain)
    }
}

impl Instance {
    pub(super) fn check(&self) -> Result<()> {
        named("cloud", &self.cloud)?;
        named("name", &self.name)?;
        count("gpus", Some(self.gpus))?;
        count("domain", self.domain)?;
        count("nics", self.nics)?;
        count("vcpus", self.vcpus)?;
        positive("network_gbit_s", self.network_gbit_s)?;
        positive("network_total_gbit_s", self.network_total_gbit_s)?;
        positive("ram_gib", self.ram_gib)?;
        bounded("nvme_gb", self.nvme_gb, 0.0, MOST)?;
        // A price of zero is a price: a machine that is paid for already.
        for (field, price) in [
            ("on_demand", self.on_demand),
            ("spot", self.spot),
            ("reserved_1y", self.reserved_1y),
            ("reserved_3y", self.reserved_3y),
            ("capacity_block", self.capacity_block),
        ] {
            bounded(field, price, 0.0, MOST)?;
        }
        for (field, range, high) in [
            ("on_demand_range", self.on_demand_range, MOST),
            ("spot_range", self.spot_range, MOST),
            ("interruption_pct", self.interruption_pct, 100.0),
        ] {
            if let Some([low, top]) = range {
                bounded(field, Some(low), 0.0, high)?;
                bounded(field, Some(top), low, high)?;
            }
        }
        Ok(())
    }
}

impl Link {
    /// Nominal rate of one direction, of whatever `per` says.
    #[must_use]
    pub fn bandwidth(&self) -> Option<BytesPerSecond> {
        self.gb_s.map(gb_s).or(self.port_gbit_s.map(gbit_s))
    }

    pub(super) fn check(&self) -> Result<()> {
        positive("gb_s", self.gb_s)?;
        positive("port_gbit_s", self.port_gbit_s)?;
        positive("measured_gb_s", self.measured_gb_s)?;
        positive("fitted_gb_s", self.fitted_gb_s)?;

        bounded("all_to_all_fraction", self.all_to_all_fraction, 0.01, 1.0)?;
        // A switch that sums halves the traffic, so its bus bandwidth may pass the wire's.
        bounded("fraction", self.fraction, 0.01, 2.0)?;
        bounded("in_switch_fraction", self.in_switch_fraction, 0.01, 2.0)?;
        bounded("copy_fraction", self.copy_fraction, 0.01, 1.0)?;
        count("in_switch_min_gpus", self.in_switch_min_gpus)?;
        bounded("latency_us", self.latency_us, 0.0, MOST)?;
        bounded("hop_us", self.hop_us, 0.0, MOST)?;
        bounded("alpha_us", self.alpha_us, 0.0, MOST)?;
        bounded("sqrt_us", self.sqrt_us, 0.0, MOST)
    }
}

impl Platform {
    pub(super) fn check(&self) -> Result<()> {
        named("id", &self.id)?;
        count("gpus_per_node", Some(self.gpus_per_node))?;
        count("domain", self.domain)?;
        count("nics", Some(self.nics))?;
        positive("network_gbit_s", Some(self.network_gbit_s))
    }
}

impl StorageOffer {
    pub(super) fn check(&self) -> Result<()> {
        named("id", &self.id)?;
        positive("gb_s", self.gb_s)?;
        bounded("usd_per_gb", self.usd_per_gb, 0.0, MOST)?;
        bounded("usd_per_gb_month", self.usd_per_gb_month, 0.0, MOST)
    }

    /// Rate, of whatever `per` says.
    #[must_use]
    pub fn bandwidth(&self) -> Option<BytesPerSecond> {
        self.gb_s.map(gb_s)
    }
}
