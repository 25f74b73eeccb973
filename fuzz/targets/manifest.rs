//! Manifests: files, spans, blocks.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    rocferry_fuzz::manifest::run(data);
});
