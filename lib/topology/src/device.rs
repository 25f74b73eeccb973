//! May one GPU stand in for another one, each looked at alone?

use std::ops::ControlFlow;

use crate::difference::{Difference, Rule, Value};
use crate::{Checks, GpuNode, Switch};

/// Everything that keeps `destination` from replacing `source` by the rules for single devices; empty when
/// it can. Links have rules of their own.
///
/// Neither ids, PCI addresses, hives nor render minors are compared. `gfx_target_version`, `num_xcc` and the
/// partition modes are compared where both sides know them; images of the C plugin do not. A missing frame
/// buffer bank compares as private with 0 bytes.
#[must_use]
pub fn compare_gpus<S, D>(
    source: &GpuNode<S>,
    destination: &GpuNode<D>,
    checks: &Checks,
) -> Vec<Difference> {
    let mut found = Vec::new();
    let _ = visit(source, destination, checks, &mut |difference| {
        found.push(difference());
        ControlFlow::Continue(())
    });
    found
}

/// [`compare_gpus`] without the list.
pub(crate) fn may_replace<S, D>(
    source: &GpuNode<S>,
    destination: &GpuNode<D>,
    checks: &Checks,
) -> bool {
    visit(source, destination, checks, &mut |_| ControlFlow::Break(())).is_continue()
}

type ToValue = fn(u64) -> Value;

/// Is told of each difference, and makes it only if it wants it.
type Visitor<'a> = &'a mut dyn FnMut(&dyn Fn() -> Difference) -> ControlFlow<()>;

fn visit<S, D>(
    source: &GpuNode<S>,
    destination: &GpuNode<D>,
    checks: &Checks,
    found: Visitor<'_>,
) -> ControlFlow<()> {
    let (s, d) = (&source.properties, &destination.properties);
    let mut equal = |property, s: u32, d: u32, value: ToValue, switch: Option<Switch>| {
        if s == d || switch.is_some_and(|switch| !checks.is_on(switch)) {
            return ControlFlow::Continue(());
        }
        found(&|| Difference {
            property,
            source: value(s.into()),
            destination: value(d.into()),
            rule: Rule::Equal,
            switch,
        })
    };
    let (hex, number): (ToValue, ToValue) = (Value::Hex, Value::Number);
    let vram = |vram: Option<crate::Vram>| vram.map_or((0, 0), |v| (u32::from(v.public), v.size));
    let ((s_public, s_vram), (d_public, d_vram)) = (vram(s.vram), vram(d.vram));

    equal("device_id", s.device_id, d.device_id, hex, None)?;
    equal("vendor_id", s.vendor_id, d.vendor_id, hex, None)?;
    for (property, s, d) in [
        (
            "gfx_target_version",
            source.gfx_target_version,
            destination.gfx_target_version,
        ),
        ("num_xcc", source.num_xcc, destination.num_xcc),
    ] {
        if let (Some(s), Some(d)) = (s, d) {
            equal(property, s, d, number, None)?;
        }
    }
    equal("simd_count", s.simd_count, d.simd_count, number, None)?;
    equal(
        "mem_banks_count",
        s.mem_banks_count,
        d.mem_banks_count,
        number,
        None,
    )?;
    equal(
        "io_links_count",
        s.io_links_count,
        d.io_links_count,
        number,
        None,
    )?;
    equal(
        "max_waves_per_simd",
        s.max_waves_per_simd,
        d.max_waves_per_simd,
        number,
        None,
    )?;
    equal(
        "lds_size_in_kb",
        s.lds_size_in_kb,
        d.lds_size_in_kb,
        number,
        None,
    )?;
    equal(
        "wave_front_size",
        s.wave_front_size,
        d.wave_front_size,
        number,
        None,
    )?;
    equal("array_count", s.array_count, d.array_count, number, None)?;
    equal(
        "simd_arrays_per_engine",
        s.simd_arrays_per_engine,
        d.simd_arrays_per_engine,
        number,
        None,
    )?;
    equal(
        "cu_per_simd_array",
        s.cu_per_simd_array,
        d.cu_per_simd_array,
        number,
        None,
    )?;
    equal("simd_per_cu", s.simd_per_cu, d.simd_per_cu, number, None)?;
    equal(
        "max_slots_scratch_cu",
        s.max_slots_scratch_cu,
        d.max_slots_scratch_cu,
        number,
        None,
    )?;
    equal(
        "num_sdma_engines",
        s.num_sdma_engines,
        d.num_sdma_engines,
        number,
        None,
    )?;
    equal(
        "num_sdma_xgmi_engines",
        s.num_sdma_xgmi_engines,
        d.num_sdma_xgmi_engines,
        number,
        None,
    )?;
    equal(
        "num_sdma_queues_per_engine",
        s.num_sdma_queues_per_engine,
        d.num_sdma_queues_per_engine,
        number,
        None,
    )?;
    equal(
        "num_cp_queues",
        s.num_cp_queues,
        d.num_cp_queues,
        number,
        None,
    )?;
    equal("vram_public", s_public, d_public, number, None)?;
    equal(
        "capability",
        s.capability,
        d.capability,
        hex,
        Some(Switch::Capability),
    )?;

    let mut at_least = |property, switch: Switch, s: u64, d: u64| {
        if s <= d || !checks.is_on(switch) {
            return ControlFlow::Continue(());
        }
        found(&|| Difference {
            property,
            source: Value::Number(s),
            destination: Value::Number(d),
            rule: Rule::AtLeast,
            switch: Some(switch),
        })
    };
    at_least("vram_size", Switch::VramSize, s_vram, d_vram)?;
    at_least(
        "num_gws",
        Switch::NumGws,
        s.num_gws.into(),
        d.num_gws.into(),
    )?;
    at_least(
        "caches_count",
        Switch::CachesCount,
        s.caches_count.into(),
        d.caches_count.into(),
    )?;
    at_least(
        "fw_version",
        Switch::FwVersion,
        s.fw_version.into(),
        d.fw_version.into(),
    )?;
    at_least(
        "sdma_fw_version",
        Switch::SdmaFwVersion,
        s.sdma_fw_version.into(),
        d.sdma_fw_version.into(),
    )?;

    let mut same_mode = |property, s: Option<&'static str>, d: Option<&'static str>| match (s, d) {
        (Some(s), Some(d)) if s != d => found(&|| Difference {
            property,
            source: Value::Text(s.to_owned()),
            destination: Value::Text(d.to_owned()),
            rule: Rule::Equal,
            switch: None,
        }),
        _ => ControlFlow::Continue(()),
    };
    same_mode(
        "compute_partition",
        source
            .compute_partition
            .map(crate::ComputePartition::as_str),
        destination
            .compute_partition
            .map(crate::ComputePartition::as_str),
    )?;
    same_mode(
        "memory_partition",
        source.memory_partition.map(crate::MemoryPartition::as_str),
        destination
            .memory_partition
            .map(crate::MemoryPartition::as_str),
    )
}

#[cfg(test)]
#[path = "device_tests.rs"]
mod tests;
