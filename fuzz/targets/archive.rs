//! Archives of Podman, CRI-O and containerd, and OCI images of them.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    rocferry_fuzz::archive::run(data);
});
