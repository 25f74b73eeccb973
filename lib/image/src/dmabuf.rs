//! An open dma-buf, as a newer C plugin records it.

use prost::Message;

use crate::walk::{decode, need};
use crate::wire::CriuDmabufNode;
use crate::{FormatError, Image};

/// Content of `amdgpu-dmabuf_%d.img` (`criu_dmabuf_node`). Read to say what cannot be restored; we
/// write none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DmabufImage {
    /// Handle of the GEM object behind it, in the C plugin's own render file.
    pub gem_handle: u32,
}

impl Image for DmabufImage {
    const MAX: u64 = 4096;

    fn decode(content: &[u8]) -> Result<Self, FormatError> {
        const MESSAGE: &str = "criu_dmabuf_node";
        let node: CriuDmabufNode = decode(MESSAGE, content)?;
        Ok(Self {
            gem_handle: need!(MESSAGE, None, node.gem_handle),
        })
    }

    fn encode(&self) -> Vec<u8> {
        CriuDmabufNode {
            gem_handle: Some(self.gem_handle),
        }
        .encode_to_vec()
    }

    fn validate(&self) -> Result<(), FormatError> {
        Ok(())
    }
}
