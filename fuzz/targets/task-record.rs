//! Task records: devices and mappings of a process.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    rocferry_fuzz::task_record::run(data);
});
