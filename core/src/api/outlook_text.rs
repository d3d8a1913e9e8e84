//! What a run may come to, as text for a terminal.

use core::fmt;

use super::outlook::{OfferLine, RunOutlook, ServingOutlook};
use crate::term::Terms;

/// The terms of a sum, one a line.
fn list<Q>(f: &mut fmt::Formatter<'_>, terms: &Terms<Q>) -> fmt::Result
where
    Q: fmt::Display + Copy,
{
    for term in &terms.0 {
        writeln!(f, "  {:<24} {:>12}", term.name, term.amount.to_string())?;
    }
    Ok(())
}

impl fmt::Display for RunOutlook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.ends {
            writeln!(f, "\nThe run never ends: its segments outlast every spell of the gang")?;
        }
        let s = &self.time_spread;
        writeln!(
            f,
            "\nExpected time: {} (P50 {}, P90 {}, P99 {}; {} if nothing is lost)",
            self.time.total(),
            s.p50,
            s.p90,
            s.p99,
            self.undisturbed
        )?;
        list(f, &self.time)?;
        for p in &self.phases {
            let word = if p.fits { "" } else { ": does not fit" };
            writeln!(
                f,
                "  {:.0} % with nodes = {}: steps of {}, {} in all, {} a GPU{word}",
                100.0 * p.share,
                p.nodes,
                p.step,
                p.work,
                p.needed
            )?;
        }
        if let Some(l) = &self.losses {
            write!(f, "  losses: {:.2e} per node-hour", l.per_node_hour)?;
            if let Some(up) = l.mean_up {
                write!(f, ", each {:.0} % of the gang, on average after {up}", 100.0 * l.loss_share)?;
            }
            match l.expected {
                Some(n) => writeln!(f, "; {n:.1} expected")?,
                None => writeln!(f)?,
            }
        }
        if let Some(c) = &self.checkpoint {
            write!(f, "  checkpoint of {}: stall {}, ", c.bytes.total(), c.stall.total())?;
            if c.on_notice {
                write!(f, "saved on notice")?;
            } else {
                write!(f, "every {}", c.interval)?;
            }
            match c.best_interval {
                Some(best) if !c.on_notice => {
                    writeln!(f, " (best {best}, {:.1} % less time)", 100.0 * (1.0 - 1.0 / (1.0 + c.excess)))?;
                }
                _ => writeln!(f)?,
            }
        }
        if let Some(d) = &self.deadline {
            writeln!(f, "  ends within {} with probability {:.3}", d.after, d.chance)?;
        }
        if let (Some(ledger), Some(s)) = (&self.ledger, &self.cost_spread) {
            let total = ledger.total();
            writeln!(f, "\nExpected cost: {total} (P50 {}, P90 {}, P99 {})", s.p50, s.p90, s.p99)?;
            list(f, ledger)?;
        }
        Ok(())
    }
}

impl fmt::Display for OfferLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "  {:<12} {:>16} {:>12} (P90 {}) {:>12}",
            self.offer,
            self.price.to_string(),
            self.time.to_string(),
            self.time_p90,
            self.cost.to_string()
        )?;
        if let Some(committed) = self.committed {
            write!(f, ", {committed} committed")?;
        }
        match self.break_even {
            Some(share) if share <= 1.0 => write!(f, ", cheaper from {:.0} % use on", 100.0 * share)?,
            Some(_) => f.write_str(", never cheaper than on demand")?,
            None => {}
        }
        if self.place.is_empty() { Ok(()) } else { write!(f, "  {}", self.place) }
    }
}

impl fmt::Display for ServingOutlook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.fits { "fits" } else { "does not fit" };
        write!(
            f,
            "Served at {} bits a weight: {word}, {} of {} on one GPU",
            self.bits, self.memory, self.limit
        )?;
        if let (Some(rate), Some(price)) = (self.tokens_per_second, self.per_million) {
            write!(f, "; batch {}: {rate:.0} tokens/s, {price} a million", self.batch)?;
        }
        if let Some(plain) = self.plain_per_million {
            write!(f, " (16 bits with room: {plain})")?;
        }
        if let (Some(extra), Some(tokens)) = (self.extra_training, self.break_even_tokens) {
            write!(f, "; {extra} more training is paid back after {tokens:.2e} tokens")?;
        }
        if let Some(days) = self.break_even_days {
            write!(f, ", {days:.0} days")?;
        }
        writeln!(f)
    }
}
