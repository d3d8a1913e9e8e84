//! The grammar of a cluster string: `[CLOUD:][NODES x][GPUS x]NAME[@REGION]`.

use crate::error::{Error, ErrorCode, Result};

/// Bytes of a name or cluster string, at most.
pub(super) const LONGEST: usize = 200;

/// What a cluster string says, before any name is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Named<'a> {
    pub cloud: Option<&'a str>,
    pub region: Option<&'a str>,
    pub counts: Counts,
    pub name: &'a str,
}

/// The numbers before the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counts {
    None,
    /// GPUs before an accelerator, nodes before a shape.
    One(u32),
    /// Nodes and GPUs in each.
    Two(u32, u32),
}

const FORM: &str = "`8xH100-SXM-80GB`, `2x8xA100-SXM4-80GB` or `4 x p5.48xlarge@us-east-1`";

#[cfg_attr(feature = "origins", track_caller)]
fn wrong(text: &str) -> Error {
    Error::new("cluster", ErrorCode::OutOfRange, format_args!("\"{text}\""), FORM)
}

pub(super) fn parse(text: &str) -> Result<Named<'_>> {
    if text.len() > LONGEST {
        return Err(wrong(text));
    }
    let (cloud, rest) = match text.split_once(':') {
        Some((cloud, rest)) => (Some(cloud.trim()), rest),
        None => (None, text),
    };
    let (rest, region) = match rest.rsplit_once('@') {
        Some((rest, region)) => (rest, Some(region.trim())),
        None => (rest, None),
    };
    let (first, rest) = count(rest)?;
    let (second, name) = if first.is_some() { count(rest)? } else { (None, rest) };
    let counts = match (first, second) {
        (Some(nodes), Some(gpus)) => Counts::Two(nodes, gpus),
        (Some(one), None) => Counts::One(one),
        _ => Counts::None,
    };
    let name = name.trim();
    if name.is_empty() || cloud == Some("") || region == Some("") {
        return Err(wrong(text));
    }
    Ok(Named { cloud, region, counts, name })
}

/// A leading count and what follows its `x`. A name that begins with a digit (`3090`,
/// `8H100.80S.176V`) is not a count.
fn count(text: &str) -> Result<(Option<u32>, &str)> {
    let text = text.trim_start();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let Some((number, rest)) = text.split_at_checked(digits) else {
        return Ok((None, text));
    };
    let rest = rest.trim_start().strip_prefix(['x', 'X', '*', '\u{d7}']);
    match rest {
        Some(rest) if digits > 0 => match number.parse::<u32>() {
            Ok(number) if number >= 1 => Ok((Some(number), rest)),
            _ => Err(Error::new(
                "cluster",
                ErrorCode::OutOfRange,
                number,
                "a count from 1 to 1000000 before `x`",
            )),
        },
        _ => Ok((None, text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_counts_cloud_and_region() {
        let it = parse("aws: 4 x p5.48xlarge @ us-east-1").unwrap();
        assert_eq!((it.cloud, it.region), (Some("aws"), Some("us-east-1")));
        assert_eq!((it.counts, it.name), (Counts::One(4), "p5.48xlarge"));
        assert_eq!(parse("2\u{d7}8*A100").unwrap().counts, Counts::Two(2, 8));
    }

    #[test]
    fn a_leading_digit_may_belong_to_the_name() {
        for name in ["3090", "8H100.80S.176V", "gpu_8x_a100"] {
            assert_eq!(parse(name).unwrap().name, name);
            assert_eq!(parse(name).unwrap().counts, Counts::None);
        }
        let it = parse("2x4090").unwrap();
        assert_eq!((it.counts, it.name), (Counts::One(2), "4090"));
    }

    #[test]
    fn refuses_what_it_cannot_read() {
        for text in ["", "   ", "8x", "0xH100", "99999999999xH100", "@x", ":H100", "H100@", "x"] {
            let read = parse(text);
            // `x` alone is a name like any other, and fails when it is looked up.
            assert_eq!(read.is_err(), text != "x", "{text}");
        }
        assert!(parse(&"H".repeat(LONGEST + 1)).is_err());
    }
}
