//! Topology trees of sysfs: whole trees, as text (see src/sysfs.rs).
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    rocferry_fuzz::sysfs::run(data);
});
