//! The identifiers that the whole workspace shares.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! hex_gpu_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub u32);

        impl $name {
            /// The bare number, as ioctl arguments and images hold it.
            #[must_use]
            pub const fn get(self) -> u32 {
                self.0
            }
        }

        /// `0x` and at least four lower-case hexadecimal digits.
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "0x{:04x}", self.0)
            }
        }

        /// At least four lower-case hexadecimal digits, without `0x` (the form in file names).
        impl fmt::LowerHex for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:04x}", self.0)
            }
        }

        impl From<u32> for $name {
            fn from(id: u32) -> Self {
                Self(id)
            }
        }

        impl From<$name> for u32 {
            fn from(id: $name) -> Self {
                id.0
            }
        }
    };
}

hex_gpu_id! {
    /// The gpu_id that the application saw when it first started. Images, names of image files and the
    /// KFD's per-process tables hold this one. On a first dump it equals the [`ActualGpuId`].
    UserGpuId
}

hex_gpu_id! {
    /// The gpu_id that this machine's kernel gives the device (`nodes/N/gpu_id` in sysfs, a 16 bit hash
    /// that differs between machines). Never stored in the images of the C plugin.
    ActualGpuId
}

/// Minor number of a DRM render node (`/dev/dri/renderD<minor>`). Minors above 191 exist on machines
/// with many GPUs.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct RenderMinor(pub u32);

impl RenderMinor {
    /// The bare number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// The file name of the node: `renderD<minor>`.
impl fmt::Display for RenderMinor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "renderD{}", self.0)
    }
}

/// Number of a KFD topology node: the `N` of `nodes/N` in sysfs. CPUs and GPUs share one numbering.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct NodeId(pub u32);

impl NodeId {
    /// The bare number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The kernel's name of an XGMI hive (`hive_id`, 64 bits, differs between machines and is therefore
/// never compared).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HiveId(pub u64);

impl HiveId {
    /// `None` for 0, which the kernel prints for a GPU without a hive.
    #[must_use]
    pub const fn from_raw(raw: u64) -> Option<Self> {
        if raw == 0 { None } else { Some(Self(raw)) }
    }

    /// The bare number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for HiveId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_print_as_the_tools_do() {
        assert_eq!(UserGpuId(0xab).to_string(), "0x00ab");
        assert_eq!(ActualGpuId(0x1_2345).to_string(), "0x12345");
        assert_eq!(format!("{:x}", UserGpuId(0xab)), "00ab");
        assert_eq!(RenderMinor(200).to_string(), "renderD200");
        assert_eq!(NodeId(3).to_string(), "3");
        assert_eq!(HiveId::from_raw(0), None);
        assert_eq!(
            HiveId::from_raw(0x10).map(|h| h.to_string()),
            Some("0x10".into())
        );
    }
}
