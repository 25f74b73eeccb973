//! May one GPU stand in for another one?

use std::fmt;

use crate::{Checks, GpuNode, Switch};

/// How a property of the two GPUs must compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// Same value.
    Equal,
    /// The destination's value is at least the source's.
    AtLeast,
}

/// A property that keeps a destination GPU from replacing a source GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Difference {
    /// Name of the property as in sysfs; `vram_public`, `vram_size` and `valid_links` are derived.
    pub property: &'static str,
    /// Its value in the checkpoint.
    pub source: u64,
    /// Its value here.
    pub destination: u64,
    /// What was asked for.
    pub rule: Rule,
    /// The switch that turns this check off, if there is one.
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

/// Everything that keeps `destination` from replacing `source` by the rules of the C plugin for single
/// devices; empty when it can.
///
/// Neither ids, PCI addresses, hives, render minors nor `gfx_target_version` are compared. A missing
/// frame buffer bank compares as private with 0 bytes.
#[must_use]
pub fn compare_gpus<S, D>(
    source: &GpuNode<S>,
    destination: &GpuNode<D>,
    checks: &Checks,
) -> Vec<Difference> {
    let (s, d) = (&source.properties, &destination.properties);
    let vram = |vram: Option<crate::Vram>| vram.map_or((0, 0), |v| (u64::from(v.public), v.size));
    let ((s_public, s_vram), (d_public, d_vram)) = (vram(s.vram), vram(d.vram));
    let mut found = Vec::new();
    let mut check = |property, rule, switch: Option<Switch>, source: u64, destination: u64| {
        let fits = match rule {
            Rule::Equal => source == destination,
            Rule::AtLeast => source <= destination,
        };
        if !fits && switch.is_none_or(|switch| checks.is_on(switch)) {
            found.push(Difference {
                property,
                source,
                destination,
                rule,
                switch,
            });
        }
    };

    let equal = [
        ("device_id", s.device_id, d.device_id),
        ("vendor_id", s.vendor_id, d.vendor_id),
        ("simd_count", s.simd_count, d.simd_count),
        ("mem_banks_count", s.mem_banks_count, d.mem_banks_count),
        ("io_links_count", s.io_links_count, d.io_links_count),
        (
            "max_waves_per_simd",
            s.max_waves_per_simd,
            d.max_waves_per_simd,
        ),
        ("lds_size_in_kb", s.lds_size_in_kb, d.lds_size_in_kb),
        ("wave_front_size", s.wave_front_size, d.wave_front_size),
        ("array_count", s.array_count, d.array_count),
        (
            "simd_arrays_per_engine",
            s.simd_arrays_per_engine,
            d.simd_arrays_per_engine,
        ),
        (
            "cu_per_simd_array",
            s.cu_per_simd_array,
            d.cu_per_simd_array,
        ),
        ("simd_per_cu", s.simd_per_cu, d.simd_per_cu),
        (
            "max_slots_scratch_cu",
            s.max_slots_scratch_cu,
            d.max_slots_scratch_cu,
        ),
        ("num_sdma_engines", s.num_sdma_engines, d.num_sdma_engines),
        (
            "num_sdma_xgmi_engines",
            s.num_sdma_xgmi_engines,
            d.num_sdma_xgmi_engines,
        ),
        (
            "num_sdma_queues_per_engine",
            s.num_sdma_queues_per_engine,
            d.num_sdma_queues_per_engine,
        ),
        ("num_cp_queues", s.num_cp_queues, d.num_cp_queues),
    ];
    for (property, s, d) in equal {
        check(property, Rule::Equal, None, s.into(), d.into());
    }
    check("vram_public", Rule::Equal, None, s_public, d_public);
    let capability = (s.capability.into(), d.capability.into());
    check(
        "capability",
        Rule::Equal,
        Some(Switch::Capability),
        capability.0,
        capability.1,
    );
    check(
        "vram_size",
        Rule::AtLeast,
        Some(Switch::VramSize),
        s_vram,
        d_vram,
    );
    let at_least = [
        ("num_gws", Switch::NumGws, s.num_gws, d.num_gws),
        (
            "caches_count",
            Switch::CachesCount,
            s.caches_count,
            d.caches_count,
        ),
        ("fw_version", Switch::FwVersion, s.fw_version, d.fw_version),
        (
            "sdma_fw_version",
            Switch::SdmaFwVersion,
            s.sdma_fw_version,
            d.sdma_fw_version,
        ),
    ];
    for (property, switch, s, d) in at_least {
        check(property, Rule::AtLeast, Some(switch), s.into(), d.into());
    }
    let links = (source.valid_link_count(), destination.valid_link_count());
    check("valid_links", Rule::AtLeast, None, links.0, links.1);
    found
}
