//! The rules, each with its own bit, and those of them that compare two GPUs alone.

use rocferry_topology::{Checks, GpuProperties, Switch};

use crate::machine::Gpu;

macro_rules! rules {
    ($($name:ident = $text:literal,)*) => {
        /// Everything that can stand against a mapping.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Rule { $($name,)* }

        impl Rule {
            pub(crate) const ALL: &'static [Self] = &[$(Self::$name,)*];

            pub(crate) const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

rules! {
    SimdCount = "simd_count =",
    MemBanks = "mem_banks_count =",
    IoLinks = "io_links_count =",
    MaxWaves = "max_waves_per_simd =",
    Lds = "lds_size_in_kb =",
    WaveFront = "wave_front_size =",
    Arrays = "array_count =",
    ArraysPerEngine = "simd_arrays_per_engine =",
    CuPerArray = "cu_per_simd_array =",
    SimdPerCu = "simd_per_cu =",
    ScratchSlots = "max_slots_scratch_cu =",
    Vendor = "vendor_id =",
    Device = "device_id =",
    Sdma = "num_sdma_engines =",
    SdmaXgmi = "num_sdma_xgmi_engines =",
    SdmaQueues = "num_sdma_queues_per_engine =",
    CpQueues = "num_cp_queues =",
    VramPublic = "vram_public =",
    Gfx = "gfx_target_version, where known",
    Xcc = "num_xcc, where known",
    Compute = "compute_partition, where known",
    Memory = "memory_partition, where known",
    Partition = "number of the partition, with SDMA queues",
    Capability = "capability = (switch)",
    VramSize = "vram_size <= (switch)",
    Gws = "num_gws <= (switch)",
    Caches = "caches_count <= (switch)",
    Firmware = "fw_version <= (switch)",
    SdmaFirmware = "sdma_fw_version <= (switch)",
    Numa = "NUMA (switch)",
    LinkCount = "valid links <=",
    LinkPresent = "a CPU link for each CPU link",
    LinkType = "CPU link: XGMI not by PCIe",
    LinkDirection = "CPU link: two-way not by one-way",
    HiveWhole = "a hive stays in one hive",
    HiveDistinct = "two hives go into two",
    Xnack = "XNACK",
    Count = "as many GPUs (mode All)",
}

/// A set of rules: those that a mapping breaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Broken(u64);

impl Broken {
    pub(crate) fn of(rules: impl IntoIterator<Item = Rule>) -> Self {
        let mut set = Self::default();
        for rule in rules {
            set.add(rule);
        }
        set
    }

    pub(crate) fn add(&mut self, rule: Rule) {
        self.0 |= 1 << rule as u32;
    }

    pub(crate) const fn has(self, rule: Rule) -> bool {
        self.0 & (1 << rule as u32) != 0
    }

    pub(crate) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) const fn len(self) -> u32 {
        self.0.count_ones()
    }
}

/// The rule that a switch turns off.
pub(crate) const fn switched(switch: Switch) -> Rule {
    match switch {
        Switch::Capability => Rule::Capability,
        Switch::VramSize => Rule::VramSize,
        Switch::NumGws => Rule::Gws,
        Switch::CachesCount => Rule::Caches,
        Switch::FwVersion => Rule::Firmware,
        Switch::SdmaFwVersion => Rule::SdmaFirmware,
        Switch::Numa => Rule::Numa,
    }
}

/// The rules that can be turned off.
pub(crate) fn switchable() -> Broken {
    Broken::of(Switch::ALL.map(switched))
}

/// The rules that these checks leave out.
pub(crate) fn off(checks: Checks) -> Broken {
    let off = Switch::ALL.into_iter().filter(|s| !checks.is_on(*s));
    Broken::of(off.map(switched))
}

/// A number of each GPU that must be the same.
pub(crate) type Field = fn(&mut GpuProperties) -> &mut u32;

/// Properties that must be equal.
pub(crate) const EQUAL: [(Rule, Field); 17] = [
    (Rule::SimdCount, |p| &mut p.simd_count),
    (Rule::MemBanks, |p| &mut p.mem_banks_count),
    (Rule::IoLinks, |p| &mut p.io_links_count),
    (Rule::MaxWaves, |p| &mut p.max_waves_per_simd),
    (Rule::Lds, |p| &mut p.lds_size_in_kb),
    (Rule::WaveFront, |p| &mut p.wave_front_size),
    (Rule::Arrays, |p| &mut p.array_count),
    (Rule::ArraysPerEngine, |p| &mut p.simd_arrays_per_engine),
    (Rule::CuPerArray, |p| &mut p.cu_per_simd_array),
    (Rule::SimdPerCu, |p| &mut p.simd_per_cu),
    (Rule::ScratchSlots, |p| &mut p.max_slots_scratch_cu),
    (Rule::Vendor, |p| &mut p.vendor_id),
    (Rule::Device, |p| &mut p.device_id),
    (Rule::Sdma, |p| &mut p.num_sdma_engines),
    (Rule::SdmaXgmi, |p| &mut p.num_sdma_xgmi_engines),
    (Rule::SdmaQueues, |p| &mut p.num_sdma_queues_per_engine),
    (Rule::CpQueues, |p| &mut p.num_cp_queues),
];

/// Properties of which the destination needs at least as much, but for the size of the memory.
pub(crate) const AT_LEAST: [(Rule, Field); 4] = [
    (Rule::Gws, |p| &mut p.num_gws),
    (Rule::Caches, |p| &mut p.caches_count),
    (Rule::Firmware, |p| &mut p.fw_version),
    (Rule::SdmaFirmware, |p| &mut p.sdma_fw_version),
];

/// What one GPU by itself says against standing in for another, all checks on.
pub(crate) fn device(source: &Gpu, destination: &Gpu) -> Broken {
    let (mut s, mut d) = (source.properties.clone(), destination.properties.clone());
    let mut broken = Broken::default();
    for (rule, field) in EQUAL {
        if *field(&mut s) != *field(&mut d) {
            broken.add(rule);
        }
    }
    for (rule, field) in AT_LEAST {
        if *field(&mut s) > *field(&mut d) {
            broken.add(rule);
        }
    }
    if s.capability != d.capability {
        broken.add(Rule::Capability);
    }
    // No frame buffer: private, and nothing of it.
    let size = |p: &GpuProperties| p.vram.map_or(0, |vram| vram.size);
    let public = |p: &GpuProperties| p.vram.is_some_and(|vram| vram.public);
    if public(&s) != public(&d) {
        broken.add(Rule::VramPublic);
    }
    if size(&s) > size(&d) {
        broken.add(Rule::VramSize);
    }
    if unlike(source.gfx, destination.gfx) {
        broken.add(Rule::Gfx);
    }
    if unlike(source.xcc, destination.xcc) {
        broken.add(Rule::Xcc);
    }
    if unlike(source.compute, destination.compute) {
        broken.add(Rule::Compute);
    }
    if unlike(source.memory, destination.memory) {
        broken.add(Rule::Memory);
    }
    if unlike(source.sdma, destination.location.map(partition)) {
        broken.add(Rule::Partition);
    }
    broken
}

/// The number of the partition: the top four bits, or the function where these are 0.
fn partition(location: u32) -> u32 {
    match location >> 28 {
        0 => location % 8,
        number => number,
    }
}

/// Both are known, and they differ.
fn unlike<T: PartialEq>(source: Option<T>, destination: Option<T>) -> bool {
    matches!((source, destination), (Some(s), Some(d)) if s != d)
}
