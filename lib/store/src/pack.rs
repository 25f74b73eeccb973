//! Packs: many blocks in one object.
//!
//! ```text
//! pack    header 40    RFPACK01, version, size of blocks, pack, data key
//!         blocks       one after the other, without gaps
//!         trailer      for each block: id, length here, length before, encoding; sealed if there is a key
//!         footer 48    check value over header and trailer, length of the trailer, RFPACKEN
//! index   16           RFINDEX1, size of the pack
//!         …            header, trailer and footer of the pack
//! ```
//!
//! **Crash.** A pack is of use as soon as it is whole: what its index object says is in its end as well, see
//! [`PackIndex::from_pack`]. An upload writes the index after the pack is acknowledged; a pack without one is
//! adopted by reading its end.
//!
//! **Integrity.** Nothing in a pack is without a check: header and footer are known beforehand, the trailer
//! has a check value, blocks their names. [`BlockDecoder`] gives out what is verified and nothing else.

mod block_index;
mod builder;
mod decode;
mod encode;
mod error;
mod index;
mod layout;

pub use block_index::{BlockIndex, Location};
pub use builder::{FinishedPack, PackBuilder, TARGET_SIZE};
pub use decode::BlockDecoder;
pub use encode::{BlockEncoder, Compression, EncodedBlock, is_zero};
pub use error::PackError;
pub use index::{PackEntry, PackIndex};
pub use layout::{FOOTER, HEADER, INDEX_START, MAX_BLOCKS, MAX_INDEX_OBJECT, PackHeader};
