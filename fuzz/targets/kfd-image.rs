//! Kfd images: device entries, buffer objects.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    rocferry_fuzz::kfd_image::run(data);
});
