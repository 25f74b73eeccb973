//! How one card is divided into several GPUs.

use std::fmt;
use std::str::FromStr;

macro_rules! modes {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$vdoc])* $variant,)*
        }

        impl $name {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The kernel's word for it.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl FromStr for $name {
            type Err = UnknownPartition;

            /// Takes the kernel's word, in any case and with white space around it.
            fn from_str(text: &str) -> Result<Self, UnknownPartition> {
                let word = text.trim();
                Self::ALL
                    .iter()
                    .copied()
                    .find(|mode| mode.as_str().eq_ignore_ascii_case(word))
                    .ok_or(UnknownPartition)
            }
        }
    };
}

modes! {
    /// `current_compute_partition` of the PCI device: how many partitions the compute dies of a card form.
    ComputePartition {
        /// One partition with all dies.
        Spx = "SPX",
        /// Two.
        Dpx = "DPX",
        /// Three.
        Tpx = "TPX",
        /// Four.
        Qpx = "QPX",
        /// One for each die.
        Cpx = "CPX",
    }
}

modes! {
    /// `current_memory_partition` of the PCI device: how many NUMA domains the memory of a card forms.
    MemoryPartition {
        /// One.
        Nps1 = "NPS1",
        /// Two.
        Nps2 = "NPS2",
        /// Four.
        Nps4 = "NPS4",
        /// Eight.
        Nps8 = "NPS8",
    }
}

/// A word that names no partition mode (the kernel prints `UNKNOWN` where there is none).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Unknown partition mode")]
pub struct UnknownPartition;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_words_are_read() {
        for mode in ComputePartition::ALL {
            assert_eq!(format!("{mode}\n").parse(), Ok(*mode));
        }
        for mode in MemoryPartition::ALL {
            assert_eq!(mode.as_str().to_lowercase().parse(), Ok(*mode));
        }
        assert_eq!("UNKNOWN".parse::<MemoryPartition>(), Err(UnknownPartition));
        assert_eq!("".parse::<ComputePartition>(), Err(UnknownPartition));
    }
}
