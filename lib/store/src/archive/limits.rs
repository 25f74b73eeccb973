//! How much of an archive is believed.

use rocferry_image::manifest::MAX_FILES;

/// Limits for reading. What is in the archive cannot change them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most files and directories, implied ones included.
    pub members: usize,
    /// Most bytes of all paths together: they are kept while reading, so that nothing comes twice.
    pub path_bytes: usize,
    /// Most bytes of all files together, holes included.
    pub total: u64,
    /// How many bytes may come out for each byte that goes in, once more than [`Limits::unexpanded`] came out.
    /// A tar of zeros makes about 1000 with gzip.
    pub expansion: u64,
    /// Bytes that may come out whatever went in.
    pub unexpanded: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            members: MAX_FILES,
            path_bytes: 64 << 20,
            total: 16 << 40,
            expansion: 2000,
            unexpanded: 1 << 30,
        }
    }
}

impl Limits {
    /// Most bytes that may come out of `consumed` bytes.
    pub(super) const fn produced(&self, consumed: u64) -> u64 {
        self.expansion
            .saturating_mul(consumed)
            .saturating_add(self.unexpanded)
    }
}
