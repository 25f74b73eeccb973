//! The compact form of a system that a node of a cluster publishes, as JSON.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    rocferry_fuzz::compact::run(data);
});
