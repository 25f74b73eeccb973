//! Features of the CPU that a process may have found and relies on.

use std::path::Path;

use super::Finding;
use crate::process;

/// Beginnings of names (as in `/proc/cpuinfo`) of features that programs look for and use by themselves.
const SEEN_BY_PROGRAMS: [&str; 22] = [
    "sse", "ssse", "pni", "avx", "amx", "aes", "vaes", "pclmul", "vpclmul", "sha", "bmi", "fma",
    "f16c", "popcnt", "abm", "adx", "movbe", "rdrand", "rdseed", "xsave", "gfni", "movdir",
];

/// Features of this machine that matter.
pub(crate) fn features() -> Vec<String> {
    let text = process::read(Path::new("/proc/cpuinfo")).unwrap_or_default();
    of_cpuinfo(&text)
}

fn of_cpuinfo(text: &str) -> Vec<String> {
    let line = text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == "flags").then_some(value)
    });
    let mut features: Vec<String> = line
        .unwrap_or_default()
        .split_ascii_whitespace()
        .filter(|name| SEEN_BY_PROGRAMS.iter().any(|seen| name.starts_with(seen)))
        .map(str::to_owned)
        .collect();
    features.sort();
    features
}

pub(super) fn check(wanted: &[String]) -> Option<Finding> {
    missing(wanted, &features())
}

fn missing(wanted: &[String], here: &[String]) -> Option<Finding> {
    let missing: Vec<&str> = wanted
        .iter()
        .filter(|feature| !here.contains(feature))
        .map(String::as_str)
        .take(20)
        .collect();
    (!missing.is_empty()).then(|| {
        Finding::refusal(
            "cpu",
            format!(
                "This CPU lacks what the process may use (it would die by an illegal instruction): {}",
                missing.join(", ")
            ),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_feature_that_is_missing_is_named() {
        let here = of_cpuinfo("processor\t: 0\nflags\t\t: fpu sse2 avx2 avx512f vme\nflags\t: x\n");
        assert_eq!(here, ["avx2", "avx512f", "sse2"]);
        assert_eq!(missing(&here, &here), None);
        let less = of_cpuinfo("flags : sse2 avx2");
        let finding = missing(&here, &less).expect("it lacks one");
        assert!(finding.refuses);
        assert!(finding.text.ends_with(": avx512f"), "{}", finding.text);
        // A machine may have more.
        assert_eq!(missing(&less, &here), None);
    }
}
