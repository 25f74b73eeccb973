//! The switches that relax the comparison of two GPUs.

use std::ffi::OsString;
use std::fmt;

/// One of the `KFD_*_CHECK` environment variables of the C plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Switch {
    /// `KFD_CAPABILITY_CHECK`.
    Capability,
    /// `KFD_VRAM_SIZE_CHECK`.
    VramSize,
    /// `KFD_NUM_GWS_CHECK`.
    NumGws,
    /// `KFD_CACHES_COUNT_CHECK`.
    CachesCount,
    /// `KFD_FW_VER_CHECK`.
    FwVersion,
    /// `KFD_SDMA_FW_VER_CHECK`.
    SdmaFwVersion,
    /// `KFD_NUMA_CHECK`.
    Numa,
}

impl Switch {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Capability,
        Self::VramSize,
        Self::NumGws,
        Self::CachesCount,
        Self::FwVersion,
        Self::SdmaFwVersion,
        Self::Numa,
    ];

    /// The name of the environment variable.
    #[must_use]
    pub const fn env(self) -> &'static str {
        match self {
            Self::Capability => "KFD_CAPABILITY_CHECK",
            Self::VramSize => "KFD_VRAM_SIZE_CHECK",
            Self::NumGws => "KFD_NUM_GWS_CHECK",
            Self::CachesCount => "KFD_CACHES_COUNT_CHECK",
            Self::FwVersion => "KFD_FW_VER_CHECK",
            Self::SdmaFwVersion => "KFD_SDMA_FW_VER_CHECK",
            Self::Numa => "KFD_NUMA_CHECK",
        }
    }
}

/// By the name of the variable.
impl serde::Serialize for Switch {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.env())
    }
}

impl fmt::Display for Switch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.env())
    }
}

/// Which of the switchable checks are made. All are by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Checks {
    /// Capability bits equal.
    pub capability: bool,
    /// Destination has at least as much VRAM.
    pub vram_size: bool,
    /// Destination has at least as many global wave sync entries.
    pub num_gws: bool,
    /// Destination lists at least as many caches.
    pub caches_count: bool,
    /// Destination's compute firmware is at least as new.
    pub fw_version: bool,
    /// Destination's SDMA firmware is at least as new.
    pub sdma_fw_version: bool,
    /// GPUs of one source CPU go to GPUs of one destination CPU.
    pub numa: bool,
}

impl Default for Checks {
    fn default() -> Self {
        Self {
            capability: true,
            vram_size: true,
            num_gws: true,
            caches_count: true,
            fw_version: true,
            sdma_fw_version: true,
            numa: true,
        }
    }
}

impl Checks {
    /// Reads the switches as the C plugin does: `1` or `YES` makes the check, `0` or `NO` leaves it out
    /// (any case). Any other value leaves the switch as it is and yields a warning to be logged.
    ///
    /// `lookup` is called once for each [`Switch`]; [`std::env::var_os`] fits.
    pub fn from_env_lookup(
        mut lookup: impl FnMut(&'static str) -> Option<OsString>,
    ) -> (Self, Vec<String>) {
        let mut checks = Self::default();
        let mut warnings = Vec::new();
        for switch in Switch::ALL {
            let Some(value) = lookup(switch.env()) else {
                continue;
            };
            match value.to_str().and_then(parse_flag) {
                Some(on) => *checks.flag_mut(switch) = on,
                None => warnings.push(format!(
                    "{switch}={:?} ignored: expected 0, NO, 1 or YES",
                    value.to_string_lossy()
                )),
            }
        }
        (checks, warnings)
    }

    /// Whether this check is made.
    #[must_use]
    pub const fn is_on(&self, switch: Switch) -> bool {
        match switch {
            Switch::Capability => self.capability,
            Switch::VramSize => self.vram_size,
            Switch::NumGws => self.num_gws,
            Switch::CachesCount => self.caches_count,
            Switch::FwVersion => self.fw_version,
            Switch::SdmaFwVersion => self.sdma_fw_version,
            Switch::Numa => self.numa,
        }
    }

    const fn flag_mut(&mut self, switch: Switch) -> &mut bool {
        match switch {
            Switch::Capability => &mut self.capability,
            Switch::VramSize => &mut self.vram_size,
            Switch::NumGws => &mut self.num_gws,
            Switch::CachesCount => &mut self.caches_count,
            Switch::FwVersion => &mut self.fw_version,
            Switch::SdmaFwVersion => &mut self.sdma_fw_version,
            Switch::Numa => &mut self.numa,
        }
    }

    /// The same checks with this one made or left out.
    #[must_use]
    pub const fn with(mut self, switch: Switch, on: bool) -> Self {
        *self.flag_mut(switch) = on;
        self
    }
}

fn parse_flag(value: &str) -> Option<bool> {
    if value == "1" || value.eq_ignore_ascii_case("yes") {
        Some(true)
    } else if value == "0" || value.eq_ignore_ascii_case("no") {
        Some(false)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_switch_is_read_under_its_own_name() {
        for switch in Switch::ALL {
            for (text, on) in [("0", false), ("No", false), ("1", true), ("yEs", true)] {
                let (checks, warnings) = Checks::from_env_lookup(|name| {
                    (name == switch.env()).then(|| OsString::from(text))
                });
                assert_eq!(checks, Checks::default().with(switch, on));
                assert_eq!(checks.is_on(switch), on);
                assert!(warnings.is_empty());
            }
        }
    }

    #[test]
    fn anything_else_is_ignored_with_a_warning() {
        for text in ["", "2", "off", "00", " 0", "no "] {
            let (checks, warnings) = Checks::from_env_lookup(|name| {
                (name == "KFD_FW_VER_CHECK").then(|| OsString::from(text))
            });
            assert_eq!(checks, Checks::default());
            assert_eq!(warnings.len(), 1, "{text:?}");
            assert!(
                warnings[0].starts_with("KFD_FW_VER_CHECK="),
                "{}",
                warnings[0]
            );
        }
    }
}
