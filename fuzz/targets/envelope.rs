//! Objects around manifests, wrapped data keys, leases, pins, the store's description.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    rocferry_fuzz::envelope::run(data);
});
