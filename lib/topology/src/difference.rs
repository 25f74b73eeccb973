//! What keeps one GPU from standing in for another.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::Switch;

/// A value of a compared property.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Value {
    /// A count or a size.
    Number(u64),
    /// A number that people write in hexadecimal: an id or a set of bits.
    Hex(u64),
    /// A word.
    Text(String),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Hex(number) => write!(f, "0x{number:x}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// Numbers as numbers, words as strings.
impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(number) | Self::Hex(number) => serializer.serialize_u64(*number),
            Self::Text(text) => serializer.serialize_str(text),
        }
    }
}

/// How a property of the two GPUs must compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// Same value.
    Equal,
    /// The destination's value is at least the source's.
    AtLeast,
}

/// A property that keeps a destination GPU from replacing a source GPU.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Difference {
    /// Name of the property as in sysfs; `vram_public`, `vram_size`, `valid_links`, `cpu_link`,
    /// `cpu_links`, `compute_partition`, `memory_partition` and `partition_index` are derived.
    pub property: &'static str,
    /// Its value in the checkpoint.
    pub source: Value,
    /// Its value here.
    pub destination: Value,
    /// What was asked for.
    pub rule: Rule,
    /// The switch that turns this check off, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub switch: Option<Switch>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            property,
            source,
            destination,
            rule,
            switch,
        } = self;
        let relation = match rule {
            Rule::Equal => "differs",
            Rule::AtLeast => "too small",
        };
        write!(
            f,
            "{property} {relation}: checkpoint {source}, here {destination}"
        )?;
        match switch {
            Some(switch) => write!(f, " ({switch}=0 allows it)"),
            None => Ok(()),
        }
    }
}
