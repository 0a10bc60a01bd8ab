#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| change::fuzz::envelope(input));
