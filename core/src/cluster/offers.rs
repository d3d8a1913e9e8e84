//! What chosen machines cost and what their hosts hold: from the shape that was named, or from the
//! offer that stands for an accelerator.

use crate::error::Result;
use crate::order::sort_by;
use crate::{Bytes, UsdPerSecond};

use super::catalog::Catalog;
use super::figures::MOST_GPUS;
use super::resolve::{Choice, elsewhere, is, ranged};
use super::resolved::Prices;
use super::rows::Instance;

impl<'a> Choice<'a> {
    /// The offer whose price stands for an accelerator: of each cloud the cheapest on-demand price
    /// of a shape with as many of them (of any shape where none has as many), and of those the
    /// lower median. A user's own offers win. All kinds of price come from that one offer, so
    /// that on-demand and spot compare like with like.
    pub(super) fn median_offer(&self) -> Result<Option<&'a Instance>> {
        let fits = |row: &&Instance| is(self.cloud, Some(&row.cloud)) && is(self.region, row.region.as_ref());
        let all = || self.catalog.offers(self.part).filter(fits);
        if all().next().is_none() {
            return match self.region.or(self.cloud) {
                Some(_) if self.given.price.is_none() => {
                    let mut places: Vec<String> =
                        self.catalog.offers(self.part).map(Instance::place).collect();
                    sort_by(&mut places, Ord::cmp);
                    places.dedup();
                    Err(elsewhere(self.cloud, self.region, &places))
                }
                _ => Ok(None),
            };
        }
        let own = all().any(|row| row.own);
        let same = all().any(|row| row.gpus == self.parts_per_node && row.own == own);
        let fits = |row: &&Instance| (row.own || !own) && (row.gpus == self.parts_per_node || !same);
        let mut best: Vec<&Instance> = Vec::with_capacity(8);
        for row in all().filter(fits) {
            if best.last().is_none_or(|last| last.cloud != row.cloud) {
                best.push(row);
            }
        }
        sort_by(&mut best, |a, b| a.price_rank().total_cmp(&b.price_rank()));
        let priced = best.iter().filter(|row| row.on_demand.is_some()).count();
        let many = if priced > 0 { priced } else { best.len() };
        Ok(best.get(many.saturating_sub(1) / 2).copied())
    }

    pub(super) fn prices(&mut self, offer: Option<&Instance>) -> Result<Prices> {
        if let Some(own) = &self.given.price {
            let devices = f64::from(self.devices());
            let price = |field: &str, usd: Option<f64>| {
                Ok(ranged(field, usd, 0.0, 1e6)?.map(|usd| UsdPerSecond::per_hour(usd / devices)))
            };
            return Ok(Prices {
                on_demand: price("cluster.price.on_demand", own.on_demand)?,
                spot: price("cluster.price.spot", own.spot)?,
                spot_range: None,
                reserved_1y: price("cluster.price.reserved_1y", own.reserved_1y)?,
                reserved_3y: price("cluster.price.reserved_3y", own.reserved_3y)?,
                offer: "given in the request".to_owned(),
                source: own.source.clone().unwrap_or_default(),
                as_of: own.as_of.clone().unwrap_or_default(),
                spot_source: None,
                spot_as_of: None,
            });
        }
        let Some(offer) = offer else {
            self.assume("cluster.price", "unknown", "the catalogue has no offer with this accelerator");
            return Ok(Prices::default());
        };
        let prices = self.catalog.prices_of(offer, self.devices());
        if self.shape.is_none() {
            let value = match prices.on_demand.or(prices.spot) {
                Some(one) => format!("{one} a GPU ({}, {})", prices.offer, prices.as_of),
                None => format!("unknown ({}, {})", prices.offer, prices.as_of),
            };
            self.assume("cluster.price", value, "the median over clouds, each at its cheapest");
        } else if prices.on_demand.or(prices.spot).is_none() {
            self.assume("cluster.price", "unknown", "the catalogue has no price for this shape");
        }
        Ok(prices)
    }

    /// Memory, hardware threads and NVMe of one host.
    pub(super) fn host(
        &mut self,
        offer: Option<&Instance>,
    ) -> Result<(Option<Bytes>, Option<u32>, Option<Bytes>)> {
        let given = self.given;
        let like = offer.filter(|row| row.gpus == self.parts_per_node || self.shape.is_some());
        let memory = ranged("cluster.host_memory_gib", given.host_memory_gib, 0.1, 1e6)?;
        let nvme = ranged("cluster.nvme_gb", given.nvme_gb, 0.0, 1e7)?;
        let vcpus = ranged("cluster.vcpus", given.vcpus.map(f64::from), 1.0, f64::from(MOST_GPUS))?;
        let known = memory.is_some() && vcpus.is_some() && nvme.is_some();
        if let (None, Some(row), false) = (self.shape, like, known) {
            let value =
                format!("{} GiB, {} vCPUs", row.ram_gib.unwrap_or_default(), row.vcpus.unwrap_or_default());
            if row.ram_gib.is_some() {
                self.assume("cluster.host_memory_gib", value, "as the shape whose price stands for it");
            }
        }
        Ok((
            memory.or(like.and_then(|row| row.ram_gib)).map(Bytes::from_gib),
            given.vcpus.or(like.and_then(|row| row.vcpus)),
            nvme.or(like.and_then(|row| row.nvme_gb)).map(|gb| Bytes::of(gb * 1e9)),
        ))
    }
}

impl Catalog {
    /// Prices of one device of a shape whose accelerators hold so many.
    pub(crate) fn prices_of(&self, offer: &Instance, devices: u32) -> Prices {
        let parts = f64::from(offer.gpus.max(1)) * f64::from(devices);
        let price = |usd: f64| UsdPerSecond::per_hour(usd / parts);
        // What a short source name stands for; other words stand for themselves.
        let address = |source: &str| self.source(source).map_or(source, |row| &row.url).to_owned();
        Prices {
            on_demand: offer.on_demand.map(price),
            spot: offer.spot.map(price),
            spot_range: offer.spot_range.map(|range| range.map(price)),
            reserved_1y: offer.reserved_1y.map(price),
            reserved_3y: offer.reserved_3y.map(price),
            offer: offer.place(),
            source: address(&offer.source),
            as_of: offer.as_of.clone(),
            spot_source: offer.spot_source.as_deref().map(address),
            spot_as_of: offer.spot_as_of.clone(),
        }
    }
}

impl Instance {
    /// Cloud, shape and region, as reports name an offer.
    pub(super) fn place(&self) -> String {
        let mut place = format!("{} {}", self.cloud, self.name);
        if let Some(region) = &self.region {
            place.push(' ');
            place.push_str(region);
        }
        place
    }
}
