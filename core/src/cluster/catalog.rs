//! The catalogue: rows in a fixed order, with an index built once.

use core::cmp::Ordering;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::OnceLock;

use crate::error::{Error, ErrorCode, Result};
use crate::order::sort_by;
use crate::read::{FromJson, from_text};
use crate::version::{SCHEMA_VERSION, version};

use super::lookup::{Names, normal};
use super::rows::{Accelerator, CatalogRows, Instance, Link, Platform, Source};

/// What is known of hardware, clouds and prices.
///
/// ```
/// use shardwise::Catalog;
/// let catalog = Catalog::embedded();
/// assert_eq!(catalog.accelerator("H100-SXM-80GB").unwrap().id, "h100-sxm");
/// assert!(catalog.rows().instances.len() > 140);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    rows: CatalogRows,
    accelerators: Names,
    instances: Names,
    links: Names,
    /// (accelerator, instance): the shapes that hold each accelerator, by cloud, cheapest first.
    offers: Vec<(usize, usize)>,
}

/// What a name stands for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Found<'a> {
    /// An accelerator, and whether the name is short for one among several.
    Accelerator(&'a Accelerator, bool),
    /// The rows of a cloud shape, one per region.
    Instance(&'a [Instance]),
}

impl Catalog {
    /// The facts that come with the crate, read on first use.
    #[must_use]
    pub fn embedded() -> &'static Self {
        static EMBEDDED: OnceLock<Catalog> = OnceLock::new();
        // A test reads every embedded file and refuses a fault, so the default is never taken.
        EMBEDDED.get_or_init(|| embedded_rows().and_then(Self::new).unwrap_or_default())
    }

    /// A catalogue of exactly these rows, in any order.
    ///
    /// # Errors
    /// A figure is out of range, two rows claim one name, or a row names one that is not there.
    pub fn new(mut rows: CatalogRows) -> Result<Self> {
        sort_by(&mut rows.accelerators, |a, b| a.id.cmp(&b.id));
        sort_by(&mut rows.instances, |a, b| {
            (normal(&a.name), &a.cloud, &a.region).cmp(&(normal(&b.name), &b.cloud, &b.region))
        });
        sort_by(&mut rows.links, |a, b| a.id.cmp(&b.id));
        sort_by(&mut rows.platforms, |a, b| a.id.cmp(&b.id));
        sort_by(&mut rows.storage, |a, b| a.id.cmp(&b.id));
        sort_by(&mut rows.sources, |a, b| a.id.cmp(&b.id));

        let ids = rows.accelerators.iter().enumerate().flat_map(|(i, row)| {
            core::iter::once(&row.id).chain(&row.aliases).map(move |name| (normal(name), i))
        });
        let mut shapes: Vec<_> =
            rows.instances.iter().enumerate().map(|(i, row)| (normal(&row.name), i)).collect();
        // Rows are sorted: the first of each name stands for its regions.
        shapes.dedup_by(|later, first| later.0 == first.0);
        let mut catalog = Self {
            accelerators: names("accelerators", ids.collect())?,
            instances: names("instances", shapes)?,
            links: names(
                "links",
                rows.links.iter().enumerate().map(|(i, row)| (normal(&row.id), i)).collect(),
            )?,
            offers: Vec::new(),
            rows,
        };
        catalog.check()?;
        catalog.offers = catalog.sorted_offers();
        Ok(catalog)
    }

    /// This catalogue with the rows of a user: one of an id that is there replaces it, another is
    /// added. A user's names and prices win over the embedded ones.
    ///
    /// ```
    /// use shardwise::{Catalog, CatalogRows};
    /// let mine: CatalogRows = serde_json::from_str(
    ///     r#"{"accelerators": [{"id": "x1", "memory_gb": 64, "usable_gib": 63, "bandwidth_gb_s": 2000, "aliases": ["H100"]}]}"#,
    /// ).unwrap();
    /// let catalog = Catalog::embedded().with_overrides(mine).unwrap();
    /// assert_eq!(catalog.accelerator("h100").unwrap().id, "x1");
    /// assert_eq!(catalog.accelerator("h100-sxm").unwrap().id, "h100-sxm");
    /// ```
    ///
    /// # Errors
    /// As [`Catalog::new`].
    pub fn with_overrides(&self, own: CatalogRows) -> Result<Self> {
        version(own.schema_version).map_err(|e| e.under("catalog"))?;
        let mut rows = self.rows.clone();
        let mut claimed = BTreeSet::new();
        for row in &own.accelerators {
            for name in core::iter::once(&row.id).chain(&row.aliases) {
                claimed.insert(normal(name));
            }
        }
        for row in &mut rows.accelerators {
            row.aliases.retain(|alias| !claimed.contains(&normal(alias)));
        }
        merge(&mut rows.accelerators, own.accelerators, |a, b| a.id.cmp(&b.id));
        let shapes = own.instances.into_iter().map(|row| Instance { own: true, ..row });
        merge(&mut rows.instances, shapes, |a, b| {
            (&a.name, &a.cloud, &a.region).cmp(&(&b.name, &b.cloud, &b.region))
        });
        merge(&mut rows.links, own.links, |a, b| a.id.cmp(&b.id));
        merge(&mut rows.platforms, own.platforms, |a, b| a.id.cmp(&b.id));
        merge(&mut rows.storage, own.storage, |a, b| a.id.cmp(&b.id));
        merge(&mut rows.sources, own.sources, |a, b| a.id.cmp(&b.id));
        Self::new(rows)
    }

    /// The embedded catalogue with the rows of a request, which mostly has none.
    pub(crate) fn with(own: &CatalogRows) -> Result<Cow<'static, Self>> {
        if *own == CatalogRows::default() {
            return Ok(Cow::Borrowed(Self::embedded()));
        }
        Self::embedded().with_overrides(own.clone()).map(Cow::Owned)
    }

    /// All rows, sorted by name: the answer of the `catalog` verb.
    #[must_use]
    pub const fn rows(&self) -> &CatalogRows {
        &self.rows
    }

    /// The accelerator that answers to an id or alias.
    ///
    /// # Errors
    /// No accelerator has this name; the error lists the nearest.
    pub fn accelerator(&self, name: &str) -> Result<&Accelerator> {
        self.accelerator_row(name)
            .and_then(|row| self.rows.accelerators.get(row))
            .ok_or_else(|| unknown("", name, self.nearest(name, false)))
    }

    /// The rows of a cloud shape, one per region.
    ///
    /// # Errors
    /// No cloud shape has this name; the error lists the nearest.
    pub fn instances(&self, name: &str) -> Result<&[Instance]> {
        self.shapes(&normal(name)).ok_or_else(|| unknown("", name, self.nearest(name, true)))
    }

    /// The link of an id.
    ///
    /// # Errors
    /// No link has this id; the error lists the nearest.
    pub fn link(&self, id: &str) -> Result<&Link> {
        if let Ok(row) = self.rows.links.binary_search_by(|row| row.id.as_str().cmp(id)) {
            return self.rows.links.get(row).ok_or_else(|| unknown("", id, Vec::new()));
        }
        let form = normal(id);
        self.links.find(&form).and_then(|row| self.rows.links.get(row)).ok_or_else(|| {
            let near = self.links.distances(&form);
            let near = near.filter_map(|(d, row)| Some((d, self.rows.links.get(row)?.id.as_str())));
            unknown("", id, closest(near.collect()))
        })
    }

    /// The usual node of a class of accelerators.
    #[must_use]
    pub fn platform(&self, id: &str) -> Option<&Platform> {
        let at = self.rows.platforms.binary_search_by(|row| row.id.as_str().cmp(id)).ok()?;
        self.rows.platforms.get(at)
    }

    /// What a short source name stands for.
    #[must_use]
    pub fn source(&self, id: &str) -> Option<&Source> {
        let at = self.rows.sources.binary_search_by(|row| row.id.as_str().cmp(id)).ok()?;
        self.rows.sources.get(at)
    }

    /// What a name in a cluster string stands for.
    pub(super) fn find(&self, field: &str, name: &str) -> Result<Found<'_>> {
        let form = normal(name);
        let row = self.accelerators.find(&form);
        if let Some((i, row)) = row.and_then(|i| Some((i, self.rows.accelerators.get(i)?))) {
            let short = self.accelerators.is_short(&form, i) && normal(&row.id) != form;
            return Ok(Found::Accelerator(row, short));
        }
        let Some(rows) = self.shapes(&form) else {
            let mut near = self.nearest(name, false);
            near.extend(self.nearest(name, true));
            return Err(unknown(field, name, closest(near)));
        };
        Ok(Found::Instance(rows))
    }

    /// The shapes that hold an accelerator: by cloud, cheapest first.
    pub(super) fn offers(&self, part: &Accelerator) -> impl Iterator<Item = &Instance> {
        let row = self.accelerator_row(&part.id).unwrap_or(usize::MAX);
        let from = self.offers.partition_point(|(i, _)| *i < row);
        let some = self.offers.iter().skip(from).take_while(move |(i, _)| *i == row);
        some.filter_map(|(_, shape)| self.rows.instances.get(*shape))
    }

    /// Of each cloud the cheapest shape with so many of an accelerator; those without a price last.
    pub(crate) fn cheapest_by_cloud(&self, accelerator: &str, gpus: u32) -> Vec<&Instance> {
        let Ok(part) = self.accelerator(accelerator) else { return Vec::new() };
        let mut best: Vec<&Instance> = Vec::new();
        for row in self.offers(part).filter(|row| row.gpus == gpus) {
            if best.last().is_none_or(|last| last.cloud != row.cloud) {
                best.push(row);
            }
        }
        best
    }

    /// Where the accelerator of an id or alias is; ids as they are written need no normal form.
    fn accelerator_row(&self, name: &str) -> Option<usize> {
        let exact = self.rows.accelerators.binary_search_by(|row| row.id.as_str().cmp(name));
        exact.ok().or_else(|| self.accelerators.find(&normal(name)))
    }

    fn shapes(&self, form: &str) -> Option<&[Instance]> {
        let from = self.rows.instances.get(self.instances.find(form)?..)?;
        let first = from.first()?;
        let many = from.iter().take_while(|row| row.name == first.name || normal(&row.name) == form).count();
        from.get(..many)
    }

    fn nearest(&self, name: &str, shapes: bool) -> Vec<(usize, &str)> {
        let form = normal(name);
        let near: Vec<_> = if shapes {
            let rows = &self.rows.instances;
            self.instances
                .distances(&form)
                .filter_map(|(d, i)| Some((d, rows.get(i)?.name.as_str())))
                .collect()
        } else {
            let rows = &self.rows.accelerators;
            self.accelerators
                .distances(&form)
                .filter_map(|(d, i)| Some((d, rows.get(i)?.id.as_str())))
                .collect()
        };
        closest(near)
    }

    /// Figures in range, and every name that a row uses there.
    fn check(&self) -> Result<()> {
        let link = |field: &str, id: Option<&String>| match id {
            Some(id) => self.link(id).map(drop).map_err(|e| e.under(field)),
            None => Ok(()),
        };
        for row in &self.rows.accelerators {
            row.check()
                .and_then(|()| link("link", row.link.as_ref()))
                .and_then(|()| link("pcie", row.pcie.as_ref()))
                .and_then(|()| link("host_link", row.host_link.as_ref()))
                .and_then(|()| self.known_platform(row.platform.as_ref()))
                .map_err(|e| of_row(e, "accelerators", &row.id))?;
        }
        for row in &self.rows.links {
            row.check().map_err(|e| of_row(e, "links", &row.id))?;
        }
        for row in &self.rows.platforms {
            row.check()
                .and_then(|()| link("network", Some(&row.network)))
                .map_err(|e| of_row(e, "platforms", &row.id))?;
        }
        for row in &self.rows.instances {
            row.check()
                .and_then(|()| link("link", row.link.as_ref()))
                .and_then(|()| link("network", row.network.as_ref()))
                .and_then(|()| self.accelerator(&row.gpu).map(drop).map_err(|e| e.under("gpu")))
                .map_err(|e| of_row(e, "instances", &row.name))?;
        }
        for row in &self.rows.storage {
            row.check().map_err(|e| of_row(e, "storage", &row.id))?;
        }
        Ok(())
    }

    fn known_platform(&self, id: Option<&String>) -> Result<()> {
        match id {
            Some(id) if self.platform(id).is_none() => {
                let ids = self.rows.platforms.iter().map(|row| (0, row.id.as_str()));
                Err(unknown("platform", id, ids.collect()))
            }
            _ => Ok(()),
        }
    }

    fn sorted_offers(&self) -> Vec<(usize, usize)> {
        let mut offers: Vec<_> = (self.rows.instances.iter().enumerate())
            .filter_map(|(i, row)| Some((self.accelerator_row(&row.gpu)?, i, row)))
            .collect();
        sort_by(&mut offers, |(gpu_a, i, a), (gpu_b, j, b)| {
            let by_cloud = gpu_a.cmp(gpu_b).then_with(|| a.cloud.cmp(&b.cloud));
            by_cloud.then_with(|| a.price_rank().total_cmp(&b.price_rank())).then_with(|| i.cmp(j))
        });
        offers.into_iter().map(|(gpu, i, _)| (gpu, i)).collect()
    }
}

impl Instance {
    /// USD per hour of one accelerator, for comparing offers; those without a price come last.
    pub(super) fn price_rank(&self) -> f64 {
        self.on_demand.map_or(f64::INFINITY, |price| price / f64::from(self.gpus.max(1)))
    }
}

/// The fault of a row.
#[cold]
#[inline(never)]
fn of_row(e: Error, file: &str, name: &str) -> Error {
    e.under(&["catalog.", file, "[", name, "]"].concat())
}

fn names(field: &str, names: Vec<(String, usize)>) -> Result<Names> {
    Names::new(names).map_err(|name| {
        let allowed = "a name or alias that no other row has";
        Error::new(format!("catalog.{field}"), ErrorCode::Conflict, format_args!("\"{name}\""), allowed)
    })
}

/// A row of the same key takes the other's place; the last of several wins.
fn merge<T>(rows: &mut Vec<T>, own: impl IntoIterator<Item = T>, order: impl Fn(&T, &T) -> Ordering) {
    rows.extend(own);
    sort_by(rows, &order);
    rows.dedup_by(|later, kept| {
        let same = order(later, kept).is_eq();
        if same {
            core::mem::swap(later, kept);
        }
        same
    });
}

fn unknown(field: &str, name: &str, near: Vec<(usize, &str)>) -> Error {
    let near: Vec<&str> = near.into_iter().map(|(_, name)| name).collect();
    let allowed = format!("a name of the catalogue, such as {}", near.join(", "));
    Error::new(field, ErrorCode::UnknownName, format_args!("\"{name}\""), allowed)
}

/// The four nearest of some names, each once.
fn closest(mut near: Vec<(usize, &str)>) -> Vec<(usize, &str)> {
    sort_by(&mut near, Ord::cmp);
    let mut out: Vec<(usize, &str)> = Vec::new();
    for (distance, name) in near {
        if out.len() < 4 && out.iter().all(|(_, other)| *other != name) {
            out.push((distance, name));
        }
    }
    out
}

/// The embedded files, as they are: one array of rows each.
pub(super) fn embedded_rows() -> Result<CatalogRows> {
    Ok(CatalogRows {
        schema_version: SCHEMA_VERSION,
        accelerators: read("accelerators", include_str!("../../data/accelerators.json"))?,
        instances: read("instances", include_str!("../../data/instances.json"))?,
        links: read("links", include_str!("../../data/links.json"))?,
        platforms: read("platforms", include_str!("../../data/platforms.json"))?,
        storage: read("storage", include_str!("../../data/storage.json"))?,
        sources: read("sources", include_str!("../../data/sources.json"))?,
    })
}

fn read<T: FromJson>(file: &str, text: &str) -> Result<Vec<T>> {
    from_text(text).map_err(|e| e.under(&format!("catalog.{file}")))
}
