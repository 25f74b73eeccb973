//! Indexes and ends of packs.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    rocferry_fuzz::pack_index::run(data);
});
