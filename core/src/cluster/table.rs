//! The catalogue as text for a terminal.

use core::fmt;

use super::rows::{Accelerator, CatalogRows, Instance, Link, StorageOffer};

/// A figure, or a dash where it is unknown.
struct Or(Option<f64>);

impl fmt::Display for Or {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(figure) => f.pad(&figure.to_string()),
            None => f.pad("-"),
        }
    }
}

fn or_dash(text: Option<&String>) -> &str {
    text.map_or("-", String::as_str)
}

impl fmt::Display for CatalogRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Accelerators (memory a framework sees; dense peaks; link one direction)")?;
        writeln!(
            f,
            "{:<20}{:>8}{:>9}{:>10}{:>10}  {:<20}{:>8}{:>7}",
            "id", "GiB", "GB/s", "bf16 TF/s", "fp8 TF/s", "link", "GB/s", "W"
        )?;
        for row in &self.accelerators {
            writeln!(f, "{row}")?;
        }
        writeln!(f, "\nInstances (USD/h of the whole shape)")?;
        writeln!(
            f,
            "{:<39}{:<24}{:>8}{:>10}{:>9}{:>9}{:>9}  {:<14}{:<11}",
            "name", "accelerators", "Gbit/s", "on-demand", "spot", "1 year", "3 years", "region", "as of"
        )?;
        for row in &self.instances {
            writeln!(f, "{row}")?;
        }
        writeln!(f, "\nLinks (one direction)")?;
        writeln!(f, "{:<20}{:<6}{:>8}{:>10}  name", "id", "per", "GB/s", "fraction")?;
        for row in &self.links {
            writeln!(f, "{row}")?;
        }
        writeln!(f, "\nStorage and egress (USD)")?;
        writeln!(f, "{:<46}{:>8}{:>13}{:>9}  per", "id", "per GB", "per GB month", "GB/s")?;
        for row in &self.storage {
            writeln!(f, "{row}")?;
        }
        writeln!(f, "\nSources")?;
        for row in &self.sources {
            writeln!(f, "{:<17}{} ({}, {})", row.id, row.url, row.licence, row.as_of)?;
        }
        Ok(())
    }
}

impl fmt::Display for Accelerator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:<20}{:>8}{:>9}{:>10}{:>10}  {:<20}{:>8}{:>7}",
            self.id,
            Or(self.usable_gib),
            self.bandwidth_gb_s,
            Or(self.bf16_tflops),
            Or(self.fp8_tflops),
            or_dash(self.link.as_ref()),
            Or(self.link_bidirectional_gb_s.map(|both| both / 2.0)),
            Or(self.tdp_w)
        )
    }
}

impl fmt::Display for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:<39}{:<24}{:>8}{:>10}{:>9}{:>9}{:>9}  {:<14}{:<11}",
            format!("{}:{}", self.cloud, self.name),
            format!("{} x {}", self.gpus, self.gpu),
            Or(self.network_gbit_s),
            Or(self.on_demand),
            Or(self.spot),
            Or(self.reserved_1y),
            Or(self.reserved_3y),
            or_dash(self.region.as_ref()),
            self.as_of
        )
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (per, rate) = (&self.per, Or(self.gb_s));
        write!(f, "{:<20}{per:<6}{rate:>8}{:>10}  {}", self.id, Or(self.fraction), self.name)
    }
}

impl fmt::Display for StorageOffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:<46}{:>8}{:>13}{:>9}  {}",
            self.id,
            Or(self.usd_per_gb),
            Or(self.usd_per_gb_month),
            Or(self.gb_s),
            or_dash(self.per.as_ref())
        )
    }
}
