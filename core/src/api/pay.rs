//! What is paid beside the gang's time, and other ways of getting and of using machines: offers side
//! by side, and what the result costs to serve.

use super::ahead::{Assumed, Laid};
use super::answer::{EstimateAnswer, PlanLine, RunReport};
use super::estimate::Workplace;
use super::outlook::{OfferLine, ServingOutlook};
use super::run::{Expenses, Faults, Owned, Run, Serving};
use crate::assumption::Assumption;
use crate::cluster::{Catalog, Cluster, PriceKind, StorageOffer};
use crate::compute::Machine;
use crate::error::Result;
use crate::ledger::{
    Bill, Egress, Evaluations, FailedStarts, OnPrem, People, ServedModel, ServingGpu, ServingLoad, Storage,
    qat_break_even, serving_cost,
};
use crate::quantity::{Bytes, BytesPerSecond, FlopsPerSecond, Seconds, Usd, UsdPerSecond};
use crate::workload::{Batch, Compute, Method, Model, OpKind, QatScheme, Recipe};

/// Seconds of a mean month.
const MONTH: f64 = 730.5 * 3600.0;
const HOUR: f64 = 3600.0;
/// Power of a node over the design power of its GPUs.
///
/// Source: NVIDIA DGX H100 data sheet, 10.2 kW for eight GPUs of 700 W.
const NODE_POWER: f64 = 1.82;

impl Workplace<'_> {
    /// Completes an answer by what its request asks of the run beyond the undisturbed one.
    pub(super) fn complete(&self, answer: &mut EstimateAnswer, batch: &Batch) -> Result<()> {
        let run = self.run;
        if let Some(report) = &mut answer.run {
            let laid = Laid { layout: &answer.layout, batch, step: &answer.step };
            if run.looks_ahead() {
                let mut ahead = self.look_ahead(run, laid, report)?;
                answer.assumptions.append(&mut ahead.assumptions);
                report.outlook = Some(ahead);
            }
            if run.offers || run.owned.is_some() {
                let mut assumed = Assumed(Vec::new());
                report.offers = self.offers(run, laid, report, &mut assumed)?;
                answer.assumptions.append(&mut assumed.0);
            }
        }
        if let Some(serving) = &run.serving {
            let training = answer.run.as_ref().and_then(RunReport::expected_cost);
            let mut assumed = Assumed(Vec::new());
            let slower = self.slower(answer, batch);
            answer.serving = Some(self.serving(serving, training, slower, &mut assumed)?);
            answer.assumptions.append(&mut assumed.0);
        }
        Ok(())
    }

    /// The plans of a list, each with what it may come to.
    pub(super) fn look_ahead_lines(&self, lines: &mut [PlanLine], batch: &Batch) -> Result<()> {
        if !self.run.looks_ahead() {
            return Ok(());
        }
        for line in lines {
            let step = self.step(&line.layout, batch);
            let Some(report) = self.run_report(&step) else { continue };
            let laid = Laid { layout: &line.layout, batch, step: &step };
            let ahead = self.look_ahead(self.run, laid, &report)?;
            line.expected_time = Some(ahead.time.total());
            line.time_p90 = Some(ahead.time_spread.p90);
            line.expected_cost = ahead.cost();
        }
        Ok(())
    }

    /// The lines of the bill that do not follow from the gang's time.
    pub(super) fn expenses(&self, given: &Expenses, time: Seconds, bill: &mut Bill, assumed: &mut Assumed) {
        if given.egress_gb > 0.0 {
            let tariff = self.tariff("egress", "internet", |row| row.usd_per_gb).unwrap_or(0.09);
            let why = "the cloud's first tier of internet egress";
            let price = assumed.or(given.egress_usd_per_gb, "run.expenses.egress_usd_per_gb", tariff, why);
            bill.egress = Some(Egress { bytes: Bytes::of(given.egress_gb * 1e9), per_gb: Usd::of(price) });
        }
        if given.storage_gb > 0.0 {
            let tariff = self.tariff("object", "tandard", |row| row.usd_per_gb_month).unwrap_or(0.023);
            let why = "the cloud's object store";
            let price = assumed.or(
                given.storage_usd_per_gb_month,
                "run.expenses.storage_usd_per_gb_month",
                tariff,
                why,
            );
            let months = (time.get() / MONTH).min(1200.0);
            let why = "the length of the run";
            let months = assumed.or(given.storage_months, "run.expenses.storage_months", months, why);
            let bytes = Bytes::of(given.storage_gb * 1e9);
            bill.storage = Some(Storage { bytes, months, per_gb_month: Usd::of(price) });
        }
        if given.people_hours > 0.0 {
            bill.people =
                Some(People { hours: given.people_hours, per_hour: Usd::of(given.people_usd_per_hour) });
        }
        if given.evaluation_runs > 0.0 {
            bill.evaluations = Some(Evaluations {
                runs: given.evaluation_runs,
                time: Seconds::of(given.evaluation_hours * HOUR),
                gpus: assumed.or(
                    given.evaluation_gpus,
                    "run.expenses.evaluation_gpus",
                    f64::from(self.cluster.gpus_per_node),
                    "a node",
                ),
                shared_by: assumed.or(
                    given.evaluation_shared_by,
                    "run.expenses.evaluation_shared_by",
                    1.0,
                    "one at a time",
                ),
            });
        }
        if given.failed_starts > 0.0 {
            let why = "until the first step does not come";
            let hours = assumed.or(given.failed_start_hours, "run.expenses.failed_start_hours", 0.25, why);
            bill.failed_starts =
                Some(FailedStarts { count: given.failed_starts, time: Seconds::of(hours * HOUR) });
        }
    }

    /// A price of the catalogue's storage table: of the cloud that is paid, else of AWS.
    fn tariff(&self, kind: &str, product: &str, of: fn(&StorageOffer) -> Option<f64>) -> Option<f64> {
        let paid = self.cluster.prices.offer.split(' ').next().unwrap_or_default();
        let cloud = self.cluster.cloud.as_deref().unwrap_or(paid);
        let rows = &Catalog::embedded().rows().storage;
        let at = |cloud: &str| {
            rows.iter()
                .filter(|row| row.kind == kind && row.provider == cloud && row.product.contains(product))
                .find_map(of)
        };
        at(cloud).or_else(|| at("aws"))
    }

    /// Every price that is known, each with the losses that go with it.
    fn offers(
        &self,
        run: &Run,
        laid: Laid<'_>,
        report: &RunReport,
        assumed: &mut Assumed,
    ) -> Result<Vec<OfferLine>> {
        let mut lines: Vec<OfferLine> = Vec::new();
        let rent = self.cluster.price(PriceKind::OnDemand);
        let years = |kind: PriceKind| match kind {
            PriceKind::Reserved1y => Some(1.0),
            PriceKind::Reserved3y => Some(3.0),
            _ => None,
        };
        for (place, cluster) in self.places() {
            let there = Workplace { cluster: &cluster, ..*self };
            for &kind in PriceKind::ALL {
                let Some(price) = cluster.price(kind) else { continue };
                let ahead = there.look_ahead(&at_price(run, kind), laid, report)?;
                lines.push(OfferLine {
                    offer: kind.name().to_owned(),
                    place: place.clone(),
                    price,
                    time: ahead.time.total(),
                    time_p90: ahead.time_spread.p90,
                    cost: ahead.cost().unwrap_or(Usd::ZERO),
                    committed: years(kind).map(|years| price * Seconds::of(12.0 * MONTH * years)),
                    break_even: years(kind).and(rent).map(|rent| price / rent),
                });
            }
        }
        if let Some(owned) = &run.owned {
            lines.push(self.owned(owned, run, laid, report, rent, assumed)?);
        }
        Ok(lines)
    }

    /// The cluster at the prices it was asked with, then at those of each other cloud that has
    /// nodes of as many of these GPUs: prices alone, the step stays as it is.
    fn places(&self) -> Vec<(String, Cluster)> {
        let own = &self.cluster.prices.offer;
        let mut out = vec![(own.clone(), self.cluster.clone())];
        let paid = own.split(' ').next().unwrap_or_default();
        let catalog = Catalog::embedded();
        let rows = catalog.cheapest_by_cloud(&self.cluster.accelerator, self.cluster.gpus_per_node);
        for row in rows.into_iter().filter(|row| row.cloud != paid) {
            let prices = catalog.prices_of(row, 1);
            out.push((prices.offer.clone(), Cluster { prices, ..self.cluster.clone() }));
        }
        out
    }

    fn owned(
        &self,
        given: &Owned,
        run: &Run,
        laid: Laid<'_>,
        report: &RunReport,
        rent: Option<UsdPerSecond>,
        assumed: &mut Assumed,
    ) -> Result<OfferLine> {
        let gpus = self.cluster.gpus() as f64;
        let power = self.cluster.power_limit().map_or(700.0, crate::Watts::get) * gpus * NODE_POWER / 1e3;
        let cluster = OnPrem {
            capex: Usd::of(given.capex_usd),
            years: assumed.or(given.years, "run.owned.years", 4.0, "usual depreciation of servers"),
            resale: Usd::of(given.resale_usd),
            power_kw: assumed.or(
                given.power_kw,
                "run.owned.power_kw",
                power,
                "1.82 times the GPUs' design power (DGX H100 data sheet)",
            ),
            pue: assumed.or(given.pue, "run.owned.pue", 1.3, "a good machine room"),
            per_kwh: Usd::of(assumed.or(
                given.usd_per_kwh,
                "run.owned.usd_per_kwh",
                0.12,
                "industrial tariff, a round figure",
            )),
            idle_power: assumed.or(
                given.idle_power,
                "run.owned.idle_power",
                0.3,
                "share of the load's power, a round figure",
            ),
            staff_per_year: Usd::of(given.staff_usd_per_year),
            space_per_year: Usd::of(given.space_usd_per_year),
        };
        let under = |e: crate::Error| e.under("run.owned");
        let price = cluster.per_used_time(given.utilisation).map_err(under)?;
        let ahead = self.look_ahead(&at_price(run, PriceKind::OnDemand), laid, report)?;
        let break_even = match rent {
            Some(rent) => Some(cluster.break_even(rent).map_err(under)?.min(1e6)),
            None => None,
        };
        let time = ahead.time.total();
        Ok(OfferLine {
            offer: "owned".to_owned(),
            place: String::new(),
            price,
            time,
            time_p90: ahead.time_spread.p90,
            cost: price * time,
            committed: Some(cluster.capex),
            break_even,
        })
    }

    /// Time of a step over that of the same without fake quantisation; 1 where there is none.
    fn slower(&self, answer: &EstimateAnswer, batch: &Batch) -> f64 {
        let method = match self.recipe.method {
            Method::Qat => Method::Full,
            Method::QatLora => Method::Lora,
            _ => return 1.0,
        };
        let plain = Recipe { method, ..self.recipe.clone() };
        let plain = Workplace { recipe: &plain, ..*self }.setting(batch).times(&answer.layout).total();
        answer.step.total().get() / plain
    }

    /// How the result is served, where it must fit and does not.
    pub(super) fn unserved(&self) -> Result<Option<ServingOutlook>> {
        let Some(demand) = self.run.serving.as_ref().filter(|s| s.must_fit) else { return Ok(None) };
        let served = self.serving(demand, None, 1.0, &mut Assumed(Vec::new()))?;
        Ok((!served.fits).then_some(served))
    }

    fn serving(
        &self,
        given: &Serving,
        training: Option<Usd>,
        slower: f64,
        assumed: &mut Assumed,
    ) -> Result<ServingOutlook> {
        let machine = Machine::new(self.cluster, &Recipe { compute: Compute::Bf16, ..self.recipe.clone() });
        let per_gpu = self.cluster.prices.per_gpu(self.run.price);
        let limit = given.memory_gib.map_or(self.cluster.memory, Bytes::from_gib);
        let gpu = ServingGpu {
            memory: limit,
            bandwidth: BytesPerSecond::of(given.bandwidth_gb_s.map_or(machine.bandwidth, |gb| gb * 1e9)),
            compute: FlopsPerSecond::of(given.tflops.map_or(machine.matmul16, |t| t * 1e12)),
            price: given.usd_per_hour.map(UsdPerSecond::per_hour).or(per_gpu).unwrap_or(UsdPerSecond::ZERO),
            reserve: Bytes::from_gib(1.5),
        };
        let why = "what the training prepares the weights for";
        let bits = assumed.or(
            given.bits,
            "run.serving.bits",
            served_bits(self.recipe.method, self.recipe.qat.scheme),
            why,
        );
        let load = ServingLoad {
            prompt: assumed.or(given.prompt, "run.serving.prompt", 500.0, "a question with its context"),
            answer: assumed.or(given.answer, "run.serving.answer", 300.0, "a paragraph or two"),
            batch: assumed.count(given.batch, "run.serving.batch", 16, "a server with some load"),
            draft_tokens: given.draft_tokens,
            acceptance: given.acceptance,
            draft_cost: given.draft_cost,
        };
        let counts = self.model.counts();
        let served = |bits: f64| {
            let bytes = |parameters: u64| Bytes::of(parameters as f64 * bits / 8.0);
            ServedModel {
                weights: bytes(counts.total),
                read_weights: bytes(counts.active),
                active_parameters: counts.active as f64,
                cache_per_token: cache_per_token(self.model),
            }
        };
        let model = served(bits);
        let under = |e: crate::Error| e.under("run.serving");
        let cost = serving_cost(&model, &gpu, &load).map_err(under)?;
        let roomy = ServingGpu { memory: limit.max(served(16.0).weights * 2.0 + limit), ..gpu };
        let plain = serving_cost(&served(16.0), &roomy, &load).map_err(under)?;
        if per_gpu.is_none() && given.usd_per_hour.is_none() {
            let why = "no price of that kind in the catalogue";
            assumed.0.push(Assumption::new("run.serving.usd_per_hour", "0", why));
        }
        let even = match (training, &cost, &plain) {
            (Some(training), Some(cost), Some(plain)) if slower > 1.0 => {
                // The training is the slower one: the plain one costs that over the ratio.
                let even = qat_break_even(training / slower, slower, plain.per_million, cost.per_million);
                Some(even)
            }
            _ => None,
        };
        let break_even_tokens = even.and_then(|e| e.tokens);
        Ok(ServingOutlook {
            bits,
            memory: model.weights + gpu.reserve + model.cache_per_token * (load.prompt + load.answer),
            limit,
            fits: cost.is_some(),
            batch: cost.map_or(0, |c| c.batch),
            first_token: cost.map(|c| c.first_token),
            tokens_per_second: cost.map(|c| c.tokens_per_second),
            per_million: cost.map(|c| c.per_million),
            plain_per_million: plain.map(|c| c.per_million),
            extra_training: even.map(|e| e.extra_training),
            break_even_tokens,
            break_even_days: break_even_tokens.and_then(|t| given.tokens_per_day.map(|day| t / day)),
        })
    }
}

impl RunReport {
    /// The expected bill where one was asked for, else the undisturbed cost.
    pub(super) fn expected_cost(&self) -> Option<Usd> {
        match &self.outlook {
            Some(ahead) => ahead.cost(),
            None => self.cost.as_ref().map(crate::Terms::total),
        }
    }
}

/// The same run at another price: losses given for one kind of machine do not carry over to the
/// other, what follows them does.
fn at_price(run: &Run, kind: PriceKind) -> Run {
    let spot = kind == PriceKind::Spot;
    let faults = match &run.faults {
        Some(given) if spot == (run.price == PriceKind::Spot) => Some(given.clone()),
        Some(given) => {
            Some(Faults { provision_s: given.provision_s, restore_s: given.restore_s, ..Faults::default() })
        }
        None => spot.then(Faults::default),
    };
    Run { price: kind, faults, expenses: None, ..run.clone() }
}

/// Bits of a served weight, scales included: what quantisation-aware training imitates (groups of
/// 32 with a 16-bit scale), else 16.
pub(super) fn served_bits(method: Method, scheme: QatScheme) -> f64 {
    match (method, scheme) {
        (Method::Qat | Method::QatLora, QatScheme::Fp8) => 8.0,
        (Method::Qat | Method::QatLora, _) => 4.5,
        _ => 16.0,
    }
}

/// Key-value cache of one token in 16 bits: two vectors per key-value head and layer; under latent
/// attention the latent alone.
///
/// Source: DeepSeek-AI 2024 (V2), section 2.1.
fn cache_per_token(model: &Model) -> Bytes {
    let mut elements = 0.0;
    for (block, copies) in model.runs() {
        let latent = block.ops.iter().find_map(|op| match op.kind {
            OpKind::Linear(l) if l.name == "kv_a_proj_with_mqa" => Some(l.outputs),
            _ => None,
        });
        let heads = || {
            block.ops.iter().filter_map(|op| match op.kind {
                OpKind::Attention(a) => Some(a.kv_heads * (a.qk_head + a.v_head)),
                _ => None,
            })
        };
        elements += copies as f64 * latent.unwrap_or_else(|| heads().sum()) as f64;
    }
    Bytes::of(2.0 * elements)
}
