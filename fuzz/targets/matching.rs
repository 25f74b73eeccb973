//! The matcher: a checkpoint and a destination, both in the compact form.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    rocferry_fuzz::matching::run(data);
});
